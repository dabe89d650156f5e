"""The types of the public names, as mypy sees them."""

from pathlib import Path

from mypy import api


def test_the_expectations_hold():
    report, problems, status = api.run(["--strict", "--no-incremental", str(Path(__file__).parent / "types")])
    assert (status, problems) == (0, ""), report
    assert "Success: no issues found in 1 source file" in report
