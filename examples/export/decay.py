"""A decay is fitted without Python: by a C++ program with Eigen, and by a page in the browser.

    python examples/export/decay.py                  writes into the folder `out`
    out/fit < out/points.txt                         the parameters, as the C++ program finds them
    python -m http.server --directory out            the page is at http://localhost:8000

The mean square of the residuals, its gradient and its Hessian are exported twice: as an object file, which g++ links
with `fit.cpp`, and as WebAssembly for the page `index.html`. Both search the minimum by damped Newton steps.
"""

import argparse
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import fgrad as fg

HERE = Path(__file__).parent
COUNT = 40
TRUTH = np.array([2.5, 1.3, 0.5])
EIGEN = Path("/usr/include/eigen3")


def model(params: Any, t: Any) -> Any:
    """Return what is left at times: of a height that decays at a rate, above a floor."""
    height, rate, floor = params
    return height * np.exp(-rate * t) + floor


def loss(params: Any, points: Any) -> Any:
    """Return the mean square of the residuals at points, which are rows of a time and a value."""
    return np.mean((model(params, points[:, 0]) - points[:, 1]) ** 2)


@fg.compile
def decay(params: Any, points: Any) -> Any:
    """Return the loss with its gradient and Hessian."""
    return (*fg.value_and_grad(loss)(params, points), fg.hessian(loss)(params, points))


def measure(seed: int = 0) -> Any:
    """Return points with noise."""
    t = np.linspace(0.0, 4.0, COUNT)
    return np.stack([t, model(TRUTH, t) + 0.1 * np.random.default_rng(seed).standard_normal(COUNT)], axis=1)


def export(folder: Path, **options: Any) -> Any:
    """Write the files `decay.*`."""
    names = ["value", "gradient", "hessian"]
    return decay.export(folder / "decay", TRUTH, measure(), results=names, library=False, **options)


def program(folder: Path) -> Path:
    """Build the C++ program."""
    native = folder / "native"  # the page has files of the same names
    native.mkdir(exist_ok=True)
    files, made = export(native), folder / "fit"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{native}", "-isystem", str(EIGEN)]
    subprocess.run(["g++", *flags, HERE / "fit.cpp", files.object, "-lm", "-o", made], check=True)
    return made


def page(folder: Path) -> Path:
    """Write the page, with the WebAssembly module and the points that it loads."""
    files = export(folder, target="wasm32-unknown-unknown")
    exports = ["--export=decay", "--export=decay_workspace_bytes", "--export=__heap_base"]
    module = folder / "decay.wasm"
    subprocess.run(["wasm-ld", "--no-entry", "--allow-undefined", *exports, files.object, "-o", module], check=True)
    for name in ("index.html", "fit.js", "exported.js"):
        shutil.copy(HERE / name, folder)
    return folder / "index.html"


def main(out: str = "out") -> None:
    """Write the points, and build what there are compilers for."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    np.savetxt(folder / "points.txt", measure())
    has_eigen = shutil.which("g++") and EIGEN.exists()
    print(program(folder) if has_eigen else "no program: there is no g++, or no Eigen (Debian's package libeigen3-dev)")
    print(page(folder) if shutil.which("wasm-ld") else "no page: there is no wasm-ld, LLVM's linker for WebAssembly")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="out")
    main(parser.parse_args().out)
