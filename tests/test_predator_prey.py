"""The example that fits the equations of predators and prey runs, and finds what others have found."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "predator_prey.py"


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("example_predator_prey", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_fit(example, tmp_path, capsys):
    result = example.main(out=str(tmp_path / "new"))
    assert result["success"]
    # Carpenter 2018 samples the same model with priors, and gives these means.
    means = np.array([0.55, 0.028, 0.80, 0.024, 33.96, 5.95])
    assert (np.abs(result["params"] - means) < result["errors"]).all()
    assert result["noise"] == pytest.approx(0.25, abs=0.03)
    assert result["loss"] < 0.1 * result["first_loss"]
    assert np.abs(result["gradient"]).max() < 1e-4
    assert (tmp_path / "new" / "predator_prey.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    printed = capsys.readouterr().out
    assert f"birth of hares{result['params'][0]:11.4f}" in printed
    assert "Optimization terminated successfully" in printed


def test_its_gradient(example):
    at, units, step = np.log(example.GUESS), np.eye(6), 5e-3
    differences = [
        (8 * (example.loss(at + step * u) - example.loss(at - step * u))
         - example.loss(at + 2 * step * u) + example.loss(at - 2 * step * u)) / (12 * step)
        for u in units
    ]  # fmt: skip
    for derivative in ("steps", "adjoint"):
        gradient = example.fg.grad(example.loss)(at, derivative)
        # The solver's tolerance of 1e-7 over the step leaves this of the largest slope.
        rest = 2e-5 * np.max(np.abs(gradient))
        np.testing.assert_allclose(gradient, [float(each) for each in differences], rtol=2e-5, atol=rest)
