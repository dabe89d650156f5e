"""The notebooks of `examples/` run from the first cell to the last, are right in what they say, and run again."""

import base64
import copy
import io
import multiprocessing
import os
import re
import time
from typing import Any

import nbformat
import notebooks as tool
import numpy as np
import pytest
from PIL import Image

NOTEBOOKS = [pytest.param(path, id=path.stem) for path in tool.NOTEBOOKS]
GALLERY = [pytest.param(path, id=path.stem) for path in tool.NOTEBOOKS if path.parent == tool.GALLERY]

CLAIMS = {  # what is true after a notebook has run, in the names of its cells
    "cnn": "accuracy(params, test_x, test_y) > 0.95",
    "digits": "accuracy(test_x, test_y) > 0.94",
    "gaussian_process": """
        found.success
        max(abs(float(slope)) for slope in fg.grad(negative_log_likelihood)(best).values()) < 1e-4
        np.all(np.abs(mean(density) - mobility) < 4 * spread * np.exp(best["noise"]))
    """,
    "hmc": """
        np.mean(accepted) > 0.8
        np.all(ratio < 1.03)
        6 < np.mean(flat[:, 0]) < 9
        np.all(np.abs(middle - 7.5) < np.abs(effect - 7.5) + 1)
    """,
    "image_registration": "np.max(np.abs(found.x - truth)) < 0.02",
    "neural_ode": "np.max(np.abs(followed - exact)[:100]) < 0.3",
    "optimal_control": """
        sizes[-1] < 1e-9
        np.max(np.abs(torque)) < 9.81
        abs(angle[-1] - np.pi) + abs(speed[-1]) + abs(angle[0]) + abs(speed[0]) < 1e-9
        np.min(np.linalg.eigvalsh((free := np.linalg.svd(jacobian(both[: 3 * count]).toarray())[2][2 * count + 2 :].T).T
            @ (curvature(both[: 3 * count], both[3 * count :]) @ free))) > 0
    """,
    "orbit": """
        distance < 5e-14
        np.linalg.norm(states[-1] - start) < 2e-13
        len(times) < 41
        10 * distance < max(distances(usual.t, usual.y[:2].T))
    """,
    # Carpenter 2018 samples the same model with priors, and gives these means.
    "predator_prey": """
        fit.success
        np.all(np.abs(params - [0.55, 0.028, 0.80, 0.024, 33.96, 5.95]) < errors)
        abs(np.sqrt(variance) - 0.25) < 0.03
        np.max(np.abs(fg.grad(loss)(fit.x))) < 1e-4
        np.max(np.abs(gradient - by_adjoint)) < 2e-5 * np.max(np.abs(gradient))
        np.max(np.abs(gradient - [(8 * (loss(guess + h) - loss(guess - h)) - loss(guess + 2 * h) + loss(guess - 2 * h))
            / 0.06 for h in 5e-3 * np.eye(6)])) < 4e-5 * np.max(np.abs(gradient))
    """,
    "survey": """
        (plan.count, plan.pattern.nnz) == (5, 5 * 120)
        found.success
        0.5 < 2 * found.cost / free < 1.7
    """,
    "transformer": """
        np.mean(losses[-10:]) < 0.6
        abs(losses[0] - np.log(len(letters))) < 0.3
        np.max(np.abs(np.triu(looks[0, 0], 1))) == 0
    """,
    "variational": """
        np.all(np.abs(mean - peak) < 0.3 * yardstick)
        np.all(np.abs(errors / yardstick - 1) < 0.1)
        np.max(np.abs(cov / np.outer(errors, errors) - curvature / np.outer(yardstick, yardstick))) < 0.15
        np.max(np.abs(curvature / np.outer(yardstick, yardstick) - np.eye(5))) > 0.3
        np.mean(bounds[-100:]) > bounds[0] + 100
    """,
    "wave_fit": """
        np.all(np.abs(found - truth) < 3 * errors)
        np.all(np.abs(np.sqrt(np.sum(influence**2, axis=1)) * noise / errors - 1) < 0.1)
        np.linalg.norm(fg.grad(lambda p: np.sum((wave(t, *p) - y) ** 2))(found)) < 1e-6
    """,
}


PRELOADED = [
    "ipykernel.ipkernel", "ipykernel.kernelapp", "matplotlib.backends.backend_agg", "matplotlib.figure",
    "scipy.integrate", "scipy.optimize", "scipy.sparse.linalg", "scipy.special", "scipy.stats",
]  # fmt: skip
"""What takes most of the time of a kernel to begin with, and is none of fgrad's."""


class Forked:
    """A kernel in a process that is forked from one in which libraries are loaded, for what takes it for a `Popen`.

    Args:
        command: as that of a kernel.
        env, cwd: of the process.
    """

    stdin = stdout = stderr = None

    def __init__(self, command: list[str], env: dict[str, str], cwd: str, **_: object) -> None:
        given = command[command.index("-f") : command.index("-f") + 2]
        program = f"""import os
os.setsid()
os.chdir({cwd!r})
os.environ.update({env!r})
from ipykernel.kernelapp import IPKernelApp
IPKernelApp.launch_instance(argv={given})"""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._process = context.Process(target=exec, args=(program, {}))
        self._process.start()
        self.pid = self._process.pid
        while self.poll() is None and os.getpgid(self.pid) != self.pid:  # signals go to all of a group
            time.sleep(0.001)
        self.terminate, self.kill = self._process.terminate, self._process.kill

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self.poll()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


@pytest.fixture(autouse=True)
def kernels_begin_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    if "forkserver" in multiprocessing.get_all_start_methods():
        monkeypatch.setattr("jupyter_client.provisioning.local_provisioner.launch_kernel", Forked)
        # As kernels have it; Matplotlib looks once, when it is loaded.
        monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")


LONG = {"digits", "loops", "neural_ode", "orbit", "pendulum", "transformer"}
"""Notebooks that run a second time when `make notebooks` stores them, and not here."""


def run(path: Any, claims: str = "") -> Any:
    """Return a notebook after running it in a fresh kernel, in which each cell runs once more afterwards."""
    with tool.opened(path) as (notebook, client):
        tool.execute(notebook, client)
        ran = copy.deepcopy(notebook)
        if path.stem not in LONG:
            tool.execute(notebook, client)  # raises where one fails
        lines = re.sub(r"\n {12}", " ", claims.strip()).splitlines()
        code = "\n".join(f"assert {line.strip()}" for line in lines)
        notebook.cells.append(nbformat.v4.new_code_cell(code))
        client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)
    return ran


def texts(notebook: Any) -> list[str]:
    """Return what the cells show as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.get("data", {}).get("text/plain", output.get("text", "")) for output in outputs]


def test_there_are_notebooks():
    assert len(GALLERY) >= 12
    assert len(NOTEBOOKS) > len(GALLERY)
    assert set(CLAIMS) == {each.id for each in GALLERY}


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_it_runs_and_shows_what_was_saved(path):
    """The same number of outputs as in the file, and the same words; numbers may differ in their last digits.

    What a notebook claims is true. And no cell fails when it is run again.
    """
    saved, again = nbformat.read(path, as_version=4), run(path, CLAIMS.get(path.stem, ""))
    for before, after in zip(saved.cells, again.cells, strict=True):
        kinds = [output.output_type for output in after.get("outputs", [])]
        assert kinds == [output.output_type for output in before.get("outputs", [])], after.source
        assert "error" not in kinds
    if path.stem != "transformer":  # what it recites hangs on the last digits of its numbers
        for before, after in zip(texts(saved), texts(again), strict=True):
            assert words(before) == words(after)


def words(text: str) -> list[str]:
    """Return the words of an output, without numbers and addresses, which may differ."""
    return [word for word in re.findall(r"[A-Za-z_]{3,}", text) if word not in {"Figure", "size", "Axes"}]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_it_is_small(path):
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize("path", GALLERY)
def test_the_gallery_shows_its_last_picture(path):
    picture = Image.open(io.BytesIO(base64.b64decode(tool.pictures(nbformat.read(path, as_version=4))[-1])))
    file = tool.thumbnail(path)
    assert file.stat().st_size < 60_000
    shown = Image.open(file).convert("RGB")
    again = picture.convert("RGB").resize(shown.size)
    assert shown.width / shown.height == pytest.approx(picture.width / picture.height, rel=0.01)
    assert np.mean(np.abs(np.asarray(shown, float) - np.asarray(again, float))) < 6  # of 255
