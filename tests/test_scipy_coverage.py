"""What is covered of SciPy: every name has a row, and the pages say what the tables say."""

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special
import scipy_tables
from coverage_table import DIFFERENTIABLE, IN_PIECES, NOT_SUPPORTED, look_up

import fgrad as fg

ROOT = Path(__file__).parents[1]
NAMES = [name for rows in scipy_tables.AREAS.values() for name in scipy_tables.names(rows)]


def test_every_ufunc_of_scipy_special_has_a_row():
    """Under whatever of its names: some are aliases, such as `psi` and `digamma`."""
    in_rows = {id(look_up(name)) for name in NAMES if name.startswith("scipy.special.")}
    ufuncs = {name: value for name, value in vars(scipy.special).items() if isinstance(value, np.ufunc)}
    assert {name for name, value in ufuncs.items() if not name.startswith("_") and id(value) not in in_rows} == set()


@pytest.mark.parametrize("area", scipy_tables.AREAS)
def test_every_name_that_is_offered_has_a_row(area):
    """A distribution has one for each of its methods."""
    known = set(NAMES) | {name.rpartition(".")[0] for name in NAMES}
    assert scipy_tables.offered(area) - known == set()


def test_every_row_is_about_names_that_exist_and_no_name_has_two():
    assert [name for name in NAMES if look_up(name) is None] == []
    written = [name for rows in scipy_tables.AREAS.values() for row in rows for name in row.names]
    assert sorted(written) == sorted(set(written))


@pytest.mark.parametrize("row", [row for rows in scipy_tables.AREAS.values() for row in rows if row.error])
def test_what_is_not_supported_says_so(row):
    assert row.kind == NOT_SUPPORTED
    assert row.calls
    for call in row.calls:
        with pytest.raises(row.error, match=re.escape(row.match)):
            fg.vjp(call.function, *call.points)
        with pytest.raises(row.error, match=re.escape(row.match)):
            fg.jvp(call.function, call.points, call.points)


PAGES = runpy.run_path(str(ROOT / "tools" / "table_pages.py"))


def test_the_page_of_scipy_has_every_name():
    page = PAGES["page_of_scipy"]()
    for rows in scipy_tables.AREAS.values():
        for row in rows:
            for name in row.names:
                assert f"\n| `{name}` | " in page, name
    assert set(PAGES["count_lines"](scipy_tables.counts())) <= set(page.splitlines())


def test_the_summary_has_the_counts_and_the_exceptions_of_the_tables():
    summary = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    rows = [row for rows in scipy_tables.AREAS.values() for row in rows]
    others = ["| why | names |", "| --- | --- |", *PAGES["exception_lines"](rows, NOT_SUPPORTED)]
    expected = [*PAGES["count_lines"](scipy_tables.counts()), *others]
    lines = summary.partition("## SciPy")[2].splitlines()
    assert [line for line in lines if line.startswith("|")] == expected, "\n".join(["write:", *expected])


def test_every_row_that_is_differentiated_has_calls():
    """But two, which are compared with closed forms."""
    rows = [row for rows in scipy_tables.AREAS.values() for row in rows if row.kind in (DIFFERENTIABLE, IN_PIECES)]
    assert [row.names[0] for row in rows if not row.calls] == [
        "fgrad.scipy.stats.multivariate_t.cdf",
        "fgrad.scipy.optimize.minimize_scalar",
    ]


def test_scipy_is_imported_by_the_user_alone_and_its_rules_come_with_the_first_call():
    program = """
import sys
import numpy as np, fgrad as fg
assert not any(name.split(".")[0] == "scipy" for name in sys.modules), "import fgrad has imported SciPy"
assert "fgrad.scipy.special" not in sys.modules
import scipy.special
x = fg.constant(3.0)
assert abs(float(scipy.special.gammaln(x)) - np.log(2)) < 1e-15
slope = fg.grad(lambda x: scipy.special.gammaln(x))(3.0)
assert abs(float(slope) - float(scipy.special.digamma(3.0))) < 1e-15
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("area", [area for area in [*scipy_tables.AREAS, "spatial"] if area != "special"])
def test_a_name_that_an_area_does_not_have_says_so(area):
    module = importlib.import_module(f"fgrad.scipy.{area}")
    with pytest.raises(fg.errors.MissingNameError, match=f"module 'fgrad.scipy.{area}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018
    assert not hasattr(module, "__nothing__")


@pytest.mark.parametrize(
    ("area", "name", "match"),
    [
        ("signal", "welsh", "Did you mean welch"),
        ("stats", "genextrem", "Did you mean genextreme"),
        ("ndimage", "label", "scipy.ndimage.label has no derivative in fgrad"),
        ("spatial.distance", "hamming", "scipy.spatial.distance.hamming has no derivative in fgrad"),
    ],
)
def test_a_name_that_is_missing_comes_with_the_nearest(area, name, match):
    with pytest.raises(AttributeError, match=match):
        getattr(importlib.import_module(f"fgrad.scipy.{area}"), name)


@pytest.mark.parametrize(("area", "name"), [("interpolate", "RBFInterpolator"), ("stats", "burr")])
def test_a_name_of_scipy_is_no_misspelling(area, name):
    with pytest.raises(fg.errors.MissingNameError, match=f"scipy.{area}.{name} has no derivative") as raised:
        getattr(importlib.import_module(f"fgrad.scipy.{area}"), name)
    assert "Did you mean" not in str(raised.value)
