"""`tools/structure.py` finds imports that point upwards or round, however they are written."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "structure.py"
FILES = {
    "__init__.py": "def grad(f):\n    return f\n",  # of which the tool takes a gradient
    "core/__init__.py": "",
    "core/sums.py": "",
    "native/__init__.py": "",
    "native/compiled.py": "from fgrad.core import sums\n",
    "native/inspection.py": "from fgrad.native.compiled import size\n",
}


def report(folder: Path, **changed: str) -> tuple[int, dict[str, list[str]]]:
    """Return how many limits a small package is beyond, and what is found, by its title."""
    for name, text in (FILES | {name.replace("_of_", "/") + ".py": text for name, text in changed.items()}).items():
        path = folder / "fgrad" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    ran = subprocess.run([sys.executable, str(TOOL), str(folder)], capture_output=True, text=True)
    assert not ran.stderr
    found: dict[str, list[str]] = {}
    for line in ran.stdout.splitlines():
        if line.startswith("    "):
            found[list(found)[-1]].append(line.strip())
        else:
            found[line[:24].strip()] = []
    return ran.returncode, found


def test_a_small_package_is_within_the_limits(tmp_path):
    limits, found = report(tmp_path)
    assert limits == 0
    assert found["imports upwards"] == found["import cycles"] == found["imports not read"] == []


ROUND = "fgrad.native.compiled fgrad.native.inspection"


INSIDE = [
    "importlib.import_module('fgrad.native.inspection')",
    "_importlib.import_module('fgrad.native.inspection')",
    "importlib.import_module(name='fgrad.native.inspection')",
    "importlib.import_module('.inspection', __package__)",
    "importlib.import_module('.inspection', package='fgrad.native')",
    "importlib.import_module(f'{__package__}.inspection')",
    "importlib.import_module(f'{__package__}.{what}')",
    "importlib.import_module(__package__ + '.inspection')",
    "load('fgrad.native.inspection')",
    "__import__('fgrad.native.inspection')",
    "_loaded('fgrad.native.inspection')",
    "import fgrad.native.inspection",
    "from fgrad.native import inspection",
    "from . import inspection",
    "from .inspection import report",
]


def test_an_import_inside_of_a_function_is_round(tmp_path):
    """Each between a pair of modules of its own."""
    changed = {}
    for number, statement in enumerate(INSIDE):
        changed[f"native_of_inspection{number}"] = f"from fgrad.native.compiled{number} import size\n"
        changed[f"native_of_compiled{number}"] = f"""
            import importlib, importlib as _importlib
            from importlib import import_module as load

            def _loaded(name):
                return importlib.import_module(name)

            def size(what):
                {statement.replace("inspection", f"inspection{number}")}
            """
    limits, found = report(tmp_path, **changed)
    pairs = [f"fgrad.native.compiled{number} fgrad.native.inspection{number}" for number, _ in enumerate(INSIDE)]
    assert sorted(found["import cycles"]) == sorted(pairs)
    assert limits == len(pairs) + len(found["imports inside functions"])
    assert found["imports not read"] == []


def test_an_import_for_types_alone_is_round(tmp_path):
    compiled = "import typing\nif typing.TYPE_CHECKING:\n    from fgrad.native.inspection import Inspection\n"
    assert report(tmp_path, native_of_compiled=compiled)[1]["import cycles"] == [ROUND]


@pytest.mark.parametrize(
    ("statement", "room"),
    [
        ("importlib.import_module('fgrad.native.compiled')", "fgrad.native.compiled"),
        ("import fgrad as fg", "fgrad"),
    ],
)
def test_an_import_inside_of_a_function_points_upwards(tmp_path, statement, room):
    limits, found = report(tmp_path, core_of_sums=f"import importlib\ndef total():\n    {statement}\n")
    assert found["imports upwards"] == [f"fgrad.core.sums -> {room}"]
    assert limits


def test_a_package_that_loads_children_when_they_are_asked_for_is_not_round(tmp_path):
    package = """
        import importlib
        def __getattr__(name):
            return importlib.import_module(f"{__name__}.{name}")
        """
    assert report(tmp_path, native_of___init__=package)[0] == 0
    further = "from fgrad.native import first\n"
    limits, found = report(tmp_path, native_of___init__=package + "\n        first = 1\n", native_of_compiled=further)
    assert limits == 1
    assert found["import cycles"] == ["fgrad.native fgrad.native.compiled fgrad.native.inspection"]


@pytest.mark.parametrize("name", ["what", "'.'.join(what)", "f'{what}.compiled'", "what()"])
def test_an_import_of_which_the_name_is_not_in_the_source_is_beyond_the_limits(tmp_path, name):
    loading = f"import importlib\ndef load(what):\n    return importlib.import_module({name})\n"
    limits, found = report(tmp_path, native_of_loading=loading)
    assert limits == 1
    assert found["imports not read"] == ["fgrad/native/loading.py:3"]


def test_other_libraries_may_be_imported_by_their_names(tmp_path):
    drawing = "import importlib\ndef draw():\n    return importlib.import_module('graphviz')\n"
    assert report(tmp_path, native_of_drawing=drawing)[0] == 0
