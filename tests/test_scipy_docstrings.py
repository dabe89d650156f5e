"""Docstrings of SciPy's families: what functions share is written once, and shown with each of them."""

import inspect
import re

import pytest
from helpers import naming

from fgrad.scipy import stats
from fgrad.scipy._docstrings import completed_by
from fgrad.scipy._plain import differentiates

SHARED = """
Args:
    a, b: the samples.
    axis: the axis of the samples,
        or None.

Returns:
    A number.

Raises:
    ValueError: there is no such axis.
"""


def test_a_docstring_gets_the_entries_and_sections_that_it_lacks():
    @completed_by(SHARED)
    def distance(a, order, axis=0):
        """Return the distance.

        It is not negative.

        Args:
            order: positive.

        Returns:
            A number for each row.

        Example:
            >>> 1
            1
        """

    assert inspect.getdoc(distance) == inspect.cleandoc(
        """Return the distance.

        It is not negative.

        Args:
            a: the samples.
            order: positive.
            axis: the axis of the samples,
                or None.

        Returns:
            A number for each row.

        Raises:
            ValueError: there is no such axis.

        Example:
            >>> 1
            1
        """
    )


def test_own_entries_come_before_shared_ones_and_those_before_later_ones():
    @differentiates(max, "\nArgs:\n    a: first.\n    b: first.\n", "\nArgs:\n    b, c: second.\n    d: second.\n")
    def f(a, b, c):
        """Do.

        Args:
            a: own.
        """

    assert inspect.getdoc(f) == "Do.\n\nArgs:\n    a: own.\n    b: first.\n    c: second."


def test_nothing_is_added_to_a_function_without_a_docstring():
    """As with python -OO."""

    @completed_by(SHARED)
    def f(a):
        return a

    assert f.__doc__ is None


METHODS = {
    f"{name}.{method}": getattr(getattr(stats, name), method)
    for name in ("norm", "poisson", "multivariate_normal", "multivariate_t", "dirichlet", "multinomial", "wishart")
    for method, function in inspect.getmembers(type(getattr(stats, name)), inspect.isfunction)
    if hasattr(function, "__wrapped__")  # those that are differentiated
}


def test_the_methods_of_distributions_are_found():
    assert len(METHODS) > 45


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_distributions_are_documented_as_functions_are(name):
    text, parameters = inspect.getdoc(METHODS[name]), list(inspect.signature(METHODS[name]).parameters)
    headings = re.findall(r"^(\w+):$", text, re.MULTILINE)
    with naming(name):
        assert headings == ["Args", "Returns", "Raises", "Example"]
    entries = re.findall(r"^    (\w[\w, ]*): ", text.partition("Args:\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert sorted(", ".join(entries).split(", ")) == sorted(parameters)
