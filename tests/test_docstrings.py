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

import public_names
import pytest
from helpers import naming

from fgrad import errors

ROOT = Path(__file__).parents[1]
PAGES = runpy.run_path(str(ROOT / "tools" / "api_pages.py"))

# The spellings of NumPy, TensorFlow and Autograd, whose documentation is theirs: a line says what each is.
OTHERS = ("fgrad.numpy", "fgrad.compat.tensorflow", "fgrad.compat.autograd")

RESULTS = {
    "fgrad": "Compiled Graph Inspection SparsePlan UnconnectedGradients",
    "fgrad.extend": "Operation",
    "fgrad.optimizers": "State History",
    "fgrad.scipy.sparse": "SparseArray",
    "fgrad.scipy.sparse.linalg": "SuperLU",
    "fgrad.progress": "Track",
    "fgrad.testing": "Call",
    "fgrad.typing": "Array",
}
"""Classes that users are handed, and do not make: their attributes are described, and making them raises nothing."""

RAISES_NOTHING = {
    "fgrad": "clip_by_value tree_leaves debug_lines is_traced GradientTape stop_gradient",
    "fgrad.optimizers.schedules": "Schedule",
    "fgrad.progress": "track",
    "fgrad.scipy.sparse": "issparse",
    "fgrad.scipy.linalg": "block_diag circulant fiedler toeplitz",
    "fgrad.scipy.special": "log_softmax logsumexp softmax",
    "fgrad.testing": "calls",
    "fgrad.tree": "leaves",
}
"""What raises no error of fgrad's for any argument."""


def public() -> dict[str, dict[str, Any]]:
    """Return the public objects by the names of their modules, and by their own."""
    found = {}
    for module_name in PAGES["PUBLIC"]:
        module = importlib.import_module(module_name)
        found[module_name] = {name: getattr(module, name) for name in PAGES["exports"](module)}
    return found


def is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseException)


@pytest.mark.parametrize("module", PAGES["PUBLIC"])
def test_names_say_what_they_are(module):
    for name, thing in public()[module].items():
        with naming(name):
            first = PAGES["first_sentence"](name, thing)
            assert first, "no docstring"
            assert first.endswith((".", ":")) or first == f"`{thing!r}`", first


@pytest.mark.parametrize("name", [name for name in errors.__all__ if is_error(getattr(errors, name))])
def test_errors_and_warnings_have_an_example_that_meets_them(name):
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(errors, name), name)
    shown = "".join((example.exc_msg or "") + example.want for example in test.examples)
    assert name == "FgradError" or name in shown


OURS = [module for module in PAGES["PUBLIC"] if not module.startswith(OTHERS)]


def functions(module: str) -> dict[str, Any]:
    """Return the functions and classes of a module that are not errors."""
    things = public()[module].items()
    return {
        name: thing
        for name, thing in things
        if not is_error(thing) and (inspect.isroutine(thing) or isinstance(thing, type))
    }


@pytest.mark.parametrize("module", [module for module in OURS if functions(module)])
def test_functions_have_arguments_results_errors_and_an_example(module):
    for name, thing in functions(module).items():
        with naming(name):
            text = inspect.getdoc(thing) or ""
            assert ">>> " in text, "no example"
            if name in RESULTS.get(module, "").split():
                assert "Attributes:\n" in text or "Args:\n" in text
            else:
                assert_complete(module, name, thing, text)


def assert_complete(module: str, name: str, thing: Any, text: str) -> None:
    signature = inspect.signature(inspect.unwrap(thing))  # SciPy's many options are one entry of the documentation
    parameters = [p for p in signature.parameters if not p.startswith("_")]
    if parameters:
        arguments = text.partition("Args:\n")[2].partition("\n\n")[0]
        assert [p for p in parameters if not re.search(rf"\b{p}\b", arguments)] == [], "not under Args"
    if not isinstance(thing, type) and signature.return_annotation not in (None, "None"):
        assert "Returns:\n" in text
    if name not in RAISES_NOTHING.get(module, "").split():
        assert "Raises:\n" in text


def test_examples_of_what_is_made_by_functions_run():
    """Where the search for doctests does not find them."""
    options = doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    made = {
        f"{module}.{name}": thing
        for module in OURS
        for name, thing in functions(module).items()
        if getattr(importlib.import_module(thing.__module__), name, None) is not thing
    }
    assert made
    for path, thing in made.items():
        name = path.rpartition(".")[2]
        with naming(path):
            text = inspect.getdoc(thing) or ""
            example = doctest.DocTestParser().get_doctest(text, {name: thing, thing.__name__: thing}, name, None, None)
            assert example.examples
            assert doctest.DocTestRunner(optionflags=options).run(example).failed == 0


def test_the_public_names_and_signatures_are_those_that_were_decided_on():
    """Where a change is meant: `python tests/public_names.py > tests/public_names.txt`, and a line in the changelog."""
    decided = (ROOT / "tests" / "public_names.txt").read_text(encoding="utf-8").splitlines()
    found = list(public_names.lines())
    assert [line for line in found if line not in decided] == [], "new"
    assert [line for line in decided if line not in found] == [], "gone"


@pytest.mark.parametrize("module", [*OURS, *PAGES["GROUPS"]])
def test_a_module_shows_its_public_names_alone(module):
    shown = [name for name in dir(importlib.import_module(module)) if not name.startswith("_")]
    assert sorted(shown) == sorted(importlib.import_module(module).__all__)
    assert not {"annotations", "Any", "Callable", "np", "functools", "core", "ops"} & {*shown}


def test_every_name_of_fgrad_is_under_a_topic_of_its_page():
    module = importlib.import_module("fgrad")
    listed = [name for names in PAGES["TOPICS"].values() for name in names.split()]
    assert sorted(listed) == sorted(PAGES["exports"](module))


def test_the_reference_has_a_page_for_each_public_module():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for module in PAGES["PUBLIC"]:
        assert f"api/{module}.md" in navigation, module
