"""Every public name is documented in one form: what it is, its arguments, what it returns, raises, an example.

The API pages list the same names (`tools/api_pages.py`), and the examples run as doctests.
"""

import doctest
import importlib
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = runpy.run_path(str(ROOT / "tools" / "api_pages.py"))

# NumPy's and TensorFlow's own spellings, whose documentation is theirs: a line says what each is.
OTHERS = ("fgrad.numpy", "fgrad.compat.tensorflow")

RESULTS = {
    "fgrad": "Graph UnconnectedGradients",
    "fgrad.extend": "Operation",
    "fgrad.optimizers": "State History",
    "fgrad.progress": "Track",
    "fgrad.testing": "Call",
}
"""Classes that users are handed, and do not make: their attributes are described, and making them raises nothing."""

RAISES_NOTHING = {
    "fgrad": "clip_by_value tree_leaves debug_lines GradientTape stop_gradient",
    "fgrad.optimizers.schedules": "Schedule",
    "fgrad.progress": "track",
    "fgrad.scipy.linalg": "block_diag circulant fiedler toeplitz",
    "fgrad.scipy.special": "log_softmax logsumexp softmax",
    "fgrad.testing": "calls",
}
"""What raises no error of fgrad's for any argument."""


def public() -> list[Any]:
    """Return the public names as parameters: the module's name, the object's, and the object."""
    return [
        pytest.param(module_name, name, getattr(module, name), id=f"{module_name}.{name}")
        for module_name in PAGES["PUBLIC"]
        for module in [importlib.import_module(module_name)]
        for name in PAGES["exports"](module)
    ]


def is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseException)


@pytest.mark.parametrize(("module", "name", "thing"), public())
def test_it_says_what_it_is(module, name, thing):
    first = PAGES["first_sentence"](name, thing)
    assert first, "no docstring"
    assert first.endswith((".", ":")) or first == f"`{thing!r}`", first


OURS = [case for case in public() if not case.values[0].startswith(OTHERS) and not is_error(case.values[2])]
FUNCTIONS = [case for case in OURS if inspect.isroutine(case.values[2]) or isinstance(case.values[2], type)]


@pytest.mark.parametrize(("module", "name", "thing"), FUNCTIONS)
def test_it_has_arguments_results_errors_and_an_example(module, name, thing):
    text = inspect.getdoc(thing) or ""
    assert ">>> " in text, "no example"
    if name in RESULTS.get(module, "").split():
        assert "Attributes:\n" in text or "Args:\n" in text
        return
    signature = inspect.signature(thing)
    parameters = [p for p in signature.parameters if not p.startswith("_")]
    if parameters:
        arguments = text.partition("Args:\n")[2].partition("\n\n")[0]
        assert [p for p in parameters if not re.search(rf"\b{p}\b", arguments)] == [], "not under Args"
    if not isinstance(thing, type) and signature.return_annotation not in (None, "None"):
        assert "Returns:\n" in text
    if name not in RAISES_NOTHING.get(module, "").split():
        assert "Raises:\n" in text


MADE = [
    case
    for case in FUNCTIONS
    if getattr(importlib.import_module(case.values[2].__module__), case.values[1], None) is not case.values[2]
]
"""What a function makes, where the search for doctests does not find it."""


@pytest.mark.parametrize(("module", "name", "thing"), MADE)
def test_examples_of_what_is_made_by_functions_run(module, name, thing):
    options = doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(thing) or "", {name: thing}, name, None, None)
    assert example.examples
    assert doctest.DocTestRunner(optionflags=options).run(example).failed == 0


def test_every_name_of_fgrad_is_under_a_topic_of_its_page():
    module = importlib.import_module("fgrad")
    listed = [name for names in PAGES["TOPICS"].values() for name in names.split()]
    assert sorted(listed) == sorted(PAGES["exports"](module))


def test_the_reference_has_a_page_for_each_public_module():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for module in PAGES["PUBLIC"]:
        assert f"api/{module}.md" in navigation, module
