"""What somebody meets who hears of fgrad today: imports, help, what is printed, first mistakes, the documentation."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml
from nbclient import NotebookClient

import fgrad as fg
from fgrad import errors
from fgrad.optimizers import Adam, GradientDescent, Lion, Momentum
from fgrad.optimizers.schedules import CosineDecay
from fgrad.scipy import optimize

ROOT = Path(__file__).parents[1]


def run(program):
    """Return what a program prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    return result.stdout + result.stderr


# Imports and help


def test_scipy_comes_area_by_area():
    program = (
        "import sys, fgrad as fg\n"
        "print('scipy' in sys.modules)\n"
        "import fgrad.scipy\n"
        "print('scipy.special' in sys.modules, 'optimize' in dir(fg.scipy))\n"
        "print(fg.scipy.special.softmax([0.0, 0.0]))\n"
        "fg.scipy.optimise\n"
    )
    lines = run(program).splitlines()
    assert lines[:3] == ["False", "False True", "[0.5 0.5]"]
    assert "module 'fgrad.scipy' has no attribute 'optimise'; its areas are integrate," in lines[-1]


@pytest.mark.parametrize("line", ["import fgrad.scipy", "from fgrad.scipy.optimize import brentq"])
def test_without_scipy_it_says_what_to_install(line):
    shown = run(f"import sys\nsys.modules['scipy'] = None\n{line}\n")
    assert "fgrad.errors.MissingExtraError: fgrad.scipy needs the library SciPy" in shown
    assert "pip install scipy" in shown


def test_help_names_what_there_is():
    table = fg.__doc__.partition("each with its own help:\n\n")[2]
    assert table
    for line in table.splitlines():
        names = line[4:].partition("   ")[0].split(", ")
        for name in names:
            if not names[0].startswith("fgrad."):
                assert hasattr(fg, name), name


def test_the_version_is_the_one_that_is_installed_and_has_changes():
    installed = importlib.metadata.version("fgrad")
    assert fg.__version__ == installed, "install it again, as make does: rm .venv/*ready"
    headings = re.findall(r"^## \[?([\w.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert fg.__version__ in headings


def test_python_without_its_lock_is_warned_of():
    shown = run("import sys\nsys._is_gil_enabled = lambda: False\nimport fgrad\n")
    assert "<string>:3: RuntimeWarning: fgrad is not tested on Python without its global interpreter lock" in shown
    assert run("import sys\nsys._is_gil_enabled = lambda: True\nimport fgrad\n") == ""


# What is printed


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        (GradientDescent(0.1), "GradientDescent(learning_rate=0.1)"),
        (Adam(0.1), "Adam(learning_rate=0.1, beta1=0.9, beta2=0.999, epsilon=1e-08)"),
        (Momentum(0.1, momentum=0.9), "Momentum(learning_rate=0.1, momentum=0.9)"),
        (Lion(0.1, weight_decay=0.2), "Lion(learning_rate=0.1, beta1=0.9, beta2=0.99, weight_decay=0.2)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_optimizer_shows_its_settings(optimizer, text):
    assert repr(optimizer) == text


def test_an_optimizer_shows_its_schedule():
    assert "CosineDecay(initial_learning_rate=0.1" in repr(GradientDescent(CosineDecay(0.1, 100)))


def test_a_line_of_a_notebook_is_named_by_its_cell():
    sources = (
        "import math, fgrad as fg",
        "def f(x):\n    return math.sin(x)",
        "try:\n    fg.grad(f)(1.0)\nexcept fg.errors.DetachedError as error:\n    print(error)",
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook).execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    text = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    assert "at In[2]:2: return math.sin(x)\n" in text


# The first mistakes


def test_a_list_in_place_of_a_vector():
    with pytest.raises(errors.ArrayConversionError, match=r"a list of tensors: pass np.array\(\[1.0, 2.0\]\)"):
        fg.grad(lambda x: np.mean(x))([1.0, 2.0])
    assert [each.item() for each in fg.grad(lambda x: np.sum(x))([1.0, 2.0])] == [1.0, 1.0]


def test_a_variable_of_integers_is_no_place_for_a_float():
    with pytest.raises(errors.DtypeError, match=r"Variable\(2.0\) instead of Variable\(2\)"):
        fg.Variable(2).assign(3.5)


def test_a_gradient_without_its_variable():
    with pytest.raises(errors.StructureError, match=r"pairs \(gradient, variable\), but one element is Tensor\(3.\)"):
        Adam().apply_gradients(fg.constant(3.0))


def test_a_fit_takes_its_parameters_one_by_one():
    x = np.arange(3.0)
    with pytest.raises(errors.StructureError, match="one for each parameter of <lambda>, but it is a dict"):
        optimize.curve_fit(lambda x, a, b: a * x + b, x, x, {"a": 1.0, "b": 2.0})


def test_a_cut_is_told_where_the_gradient_is_zero_by_chance():
    explained = fg.explain(lambda x: np.floor(x) * 0.0 + np.abs(x) * x.item(), 0.0, argnums=0)
    assert explained.status == "zero"
    assert ".item()" in [reason.operation for reason in explained.reasons]
    assert [reason.operation for reason in fg.check(lambda x: np.abs(x) * x.item(), 0.0).cuts] == [".item()"]


# The documentation


def test_the_readme_compares_with_the_numbers_of_the_whole_table():
    short, whole = (
        [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
        for path in (ROOT / "README.md", ROOT / "docs" / "comparison.md")
    )
    assert len(short) > 5
    assert set(short) <= set(whole)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as `make docs` does, without its index for the search, its colours and what is around each page.

    It must not warn.
    """
    place = tmp_path_factory.mktemp("site")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["plugins"].remove("search")
    settings["theme"]["features"] = ["navigation.prune"]
    (docstrings,) = (each["mkdocstrings"] for each in settings["plugins"] if "mkdocstrings" in each)
    docstrings["handlers"]["python"]["options"]["separate_signature"] = False  # a process of a formatter for each
    settings["markdown_extensions"].append({"pymdownx.highlight": {"use_pygments": False}})
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", "-", "--site-dir", str(place)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    text = yaml.safe_dump(settings)
    result = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert result.returncode == 0, result.stderr
    return place


def test_sections_of_docstrings_are_shown_as_sections(site):
    for page in site.glob("api/*.html"):
        text = page.read_text()
        assert "Returns:\n" not in text, page
        assert "<summary>Example" not in text, page  # as a quotation, which swallows the prompts
        assert "module-attribute" not in text, page  # a function that is made by a call
    solvers = (site / "api" / "fgrad.scipy.optimize.html").read_text()
    assert 'id="fgrad.scipy.optimize.bisect"' in solvers
    assert re.search(r"Returns:</span></p>\s*<p>The root", solvers)
    assert 'href="fgrad.errors.html#fgrad.errors.ConvergenceError"' in solvers
    assert solvers.count("Examples:</span></p>") == solvers.count("Raises:</span></p>")


def test_functions_of_families_are_shown_with_what_they_share_and_with_the_parameters_that_they_have(site):
    distances = (site / "api" / "fgrad.scipy.spatial.distance.html").read_text()
    assert len(re.findall("a weight for each coordinate", distances)) == 9
    assert "the order of the norm" in distances
    assert "initial_temp" in (site / "api" / "fgrad.scipy.optimize.html").read_text()


def test_the_page_of_errors_lists_errors_alone(site):
    text = (site / "api" / "fgrad.errors.html").read_text()
    shown = re.findall(r'<h3 id="fgrad\.errors\.(\w+)"', text)
    own = {name: value for name, value in vars(errors).items() if getattr(value, "__module__", "") == "fgrad.errors"}
    classes = [name for name, value in own.items() if isinstance(value, type) and not name.startswith("_")]
    assert shown == sorted(classes)
    assert all(issubclass(getattr(errors, name), Exception) for name in classes)


def test_names_of_other_libraries_are_in_tables(site):
    text = (site / "api" / "fgrad.compat.tensorflow.nn.html").read_text()
    assert "<code>relu(features)</code>" in text
    assert "<code>linspace(start, stop, num=50," in (site / "api" / "fgrad.numpy.html").read_text()
