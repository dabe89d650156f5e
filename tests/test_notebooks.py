"""The notebooks of `examples/` run from the first cell to the last, say what they claim, and run again."""

import copy
import os
import re
import warnings
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run(path: Path) -> Any:
    """Return a notebook after running it in a fresh kernel, in which each cell runs once more afterwards."""
    notebook = nbformat.read(path, as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that run kernels
        resources = {"metadata": {"path": str(EXAMPLES)}}
        client = NotebookClient(notebook, timeout=300, coalesce_streams=True, resources=resources)
        with client.setup_kernel(env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}):
            for number, cell in enumerate(notebook.cells):
                client.execute_cell(cell, number)
            ran = copy.deepcopy(notebook)
            for number, cell in enumerate(notebook.cells):
                client.execute_cell(cell, number)  # raises where one fails
    return ran


def texts(notebook: Any) -> list[str]:
    """Return what the cells show as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.get("data", {}).get("text/plain", output.get("text", "")) for output in outputs]


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in NOTEBOOKS])
def test_it_runs_and_shows_what_was_saved(path):
    """The same number of outputs as in the file, and the same words; numbers may differ in their last digits.

    And no cell fails when it is run again.
    """
    saved, again = nbformat.read(path, as_version=4), run(path)
    for before, after in zip(saved.cells, again.cells, strict=True):
        kinds = [output.output_type for output in after.get("outputs", [])]
        assert kinds == [output.output_type for output in before.get("outputs", [])], after.source
        assert "error" not in kinds
    for before, after in zip(texts(saved), texts(again), strict=True):
        assert words(before) == words(after)


def words(text: str) -> list[str]:
    """Return the words of an output, without numbers and addresses, which may differ."""
    return [word for word in re.findall(r"[A-Za-z_]{3,}", text) if word not in {"Figure", "size", "Axes"}]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in NOTEBOOKS])
def test_it_is_small(path):
    assert path.stat().st_size < 300_000
