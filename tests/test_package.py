"""What is built for a release, as `tools/package_test.py` looks at it."""

import re
import tomllib
import types
from pathlib import Path

import package_test
import pytest

import fgrad as fg

ROOT = Path(__file__).parents[1]
PACKAGE = ["fgrad/__init__.py", "fgrad/__init__.pyi", "fgrad/py.typed", "fgrad/core/README.md"]
OTHERS = ["tests/conftest.py", "tools/package_test.py", "Makefile", "LICENSE", "CHANGELOG.md"]
SDIST = [f"fgrad-0.2.0/{name}" for name in (*PACKAGE, *OTHERS)]
WHEEL = [*PACKAGE, "fgrad-0.2.0.dist-info/METADATA"]


def test_what_is_complete_passes():
    package_test.check_names(PACKAGE, WHEEL, SDIST)
    package_test.check_names(PACKAGE, [name for name in WHEEL if not name.endswith(".md")], SDIST)


@pytest.mark.parametrize("name", PACKAGE[:3])
def test_a_wheel_without_a_file_is_refused(name):
    with pytest.raises(RuntimeError, match=f"the wheel lacks .*{re.escape(name)}"):
        package_test.check_names(PACKAGE, [each for each in WHEEL if each != name], SDIST)


@pytest.mark.parametrize("name", ["tests/test_errors.py", "fgrad/tests/test_errors.py", "fgrad/scratch.py"])
def test_a_wheel_with_another_file_is_refused(name):
    with pytest.raises(RuntimeError, match=f"and holds .*{re.escape(name)}"):
        package_test.check_names(PACKAGE, [*WHEEL, name], SDIST)


def test_an_sdist_without_tests_is_refused():
    with pytest.raises(RuntimeError, match=r"the sdist lacks .*tests/conftest\.py"):
        package_test.check_names(PACKAGE, WHEEL, [name for name in SDIST if "tests" not in name])


def test_each_extra_has_a_program():
    assert set(package_test.PROGRAMS) == {"", *package_test.extras()}


def test_the_extras_are_installed_alone_and_together():
    workshop = types.SimpleNamespace(sdist="sdist", wheel="wheel")
    found = [(kind, extra) for kind, _, extra in package_test.cases(workshop, ["plot", "save"])]
    assert found == [("sdist", ""), ("wheel", ""), ("wheel", "plot"), ("wheel", "save"), ("wheel", "plot,save")]
    assert [extra for *_, extra in package_test.cases(workshop, ["plot"])] == ["", "", "plot"]


def test_the_files_of_make_check_exist():
    named = re.search(r"^CHECKED = ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named is not None
    files = named[1].replace("\\\n", " ").split()
    assert len(files) > 10
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_what_users_install_has_a_lowest_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    of_extras = [each for name in package_test.extras() for each in project["optional-dependencies"][name]]
    assert [each for each in (*project["dependencies"], *of_extras) if ">=" not in each] == []


CONDAS = {
    "typing-extensions": "typing_extensions",
    "graphviz": "python-graphviz",
    "matplotlib": "matplotlib-base",
    "torch": "pytorch",
    "flatbuffers": "python-flatbuffers",
    "dask": "dask-core",
}
"""What packages of PyPI are called on conda-forge, where it is something else."""


def test_the_recipe_for_conda_says_what_pyproject_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    run, optional = recipe.partition("\n  run:\n")[2].split("\n  run_constraints:")
    optional = optional.partition("\ntests:")[0]
    assert f'version: "{fg.__version__}"' in recipe
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in recipe
    assert set(re.findall("- (.*)", run)) == {*map(conda, project["dependencies"]), "python >=${{ python_min }}"}
    of_extras = {conda(each) for name in package_test.extras() for each in project["optional-dependencies"][name]}
    assert set(re.findall("- (.*)", optional)) == of_extras | {"distributed >=2024.12"}  # which dask[distributed] is


def conda(requirement):
    """Return a requirement as conda has it."""
    name, version = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=(.*)", requirement).groups()
    return f"{CONDAS.get(name, name)} >={version}"


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "secrets."])
def test_workflows_hold_no_secret(name):
    assert [path.name for path in (ROOT / ".github" / "workflows").iterdir() if name in path.read_text()] == []


def test_actions_are_pinned_by_digest():
    text = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").iterdir())
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each)] == []
