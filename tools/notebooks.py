"""The notebooks of `examples/`: runs them, and stores what their cells show.

    python tools/notebooks.py                                  all of them
    python tools/notebooks.py examples/gallery/orbit.ipynb     these

To be called after a change of a notebook. The file keeps no times and no versions, so that only what changed differs.
"""

from __future__ import annotations

import argparse
import copy
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "examples" / "gallery"
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


@contextmanager
def opened(path: Path) -> Iterator[tuple[Any, NotebookClient]]:
    """Read a notebook, and start a kernel for it in its folder, which imports fgrad from here.

    Args:
        path: of the notebook.

    Yields:
        The notebook, and a client of the kernel, which executes its cells.
    """
    notebook = nbformat.read(path, as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that run kernels
        resources = {"metadata": {"path": str(path.parent)}}
        client = NotebookClient(notebook, timeout=300, coalesce_streams=True, resources=resources)
        with client.setup_kernel(env={**os.environ, "PYTHONPATH": str(ROOT)}):
            yield notebook, client


def execute(notebook: Any, client: NotebookClient) -> None:
    """Execute all cells in order; an error in one is raised."""
    for number, cell in enumerate(notebook.cells):
        client.execute_cell(cell, number)


def pictures(notebook: Any) -> list[str]:
    """Return the pictures that the cells show, in order, as PNG in base 64."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]


def thumbnail(path: Path) -> Path:
    """Return the path of the picture that stands for a notebook in the gallery."""
    return ROOT / "docs" / "assets" / "gallery" / f"{path.stem}.png"


def store(path: Path) -> None:
    """Run a notebook, and write it with what its cells show; then no cell may fail when it is run again."""
    with opened(path) as (running, client):
        execute(running, client)
        notebook = copy.deepcopy(running)
        execute(running, client)
    for number, cell in enumerate(notebook.cells):
        cell["id"], cell["metadata"] = f"cell-{number}", {}
    notebook["metadata"] = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    nbformat.write(notebook, path)


def main() -> None:
    """Run the notebooks that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, default=NOTEBOOKS)
    for path in parser.parse_args().paths:
        print(path)
        store(path)


if __name__ == "__main__":
    main()
