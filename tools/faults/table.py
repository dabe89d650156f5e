"""The planted faults, as data: `table.toml`, and what planting one means."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
TABLE = Path(__file__).parent / "table.toml"


class RottenFaultError(Exception):
    """The text that a fault replaces does not stand exactly once in its file."""


class Fault(NamedTuple):
    """A fault in one line of the library.

    Attributes:
        number: its position in the table, from 1.
        area: the group of packages.
        file: the path from the root of the repository.
        old, new: a text of the file, and what replaces it.
        breaks: what is wrong then.
    """

    number: int
    area: str
    file: str
    old: str
    new: str
    breaks: str

    def offset_in(self, source: str) -> int:
        """Return where the two texts begin to differ in the source of the file.

        Raises:
            RottenFaultError: the old text does not stand there exactly once.
        """
        count = source.count(self.old)
        if count != 1:
            raise RottenFaultError(
                f"fault {self.number} replaces a text that stands {count} times in {self.file}: {self.old!r}.\n"
                "Write it anew in tools/faults/table.toml."
            )
        same = next((at for at, pair in enumerate(zip(self.old, self.new, strict=False)) if pair[0] != pair[1]), None)
        return source.index(self.old) + (min(len(self.old) - 1, len(self.new)) if same is None else same)

    def planted(self, source: str) -> str:
        """Return the source of the file with the fault.

        Raises:
            RottenFaultError: as for `offset_in`.
        """
        self.offset_in(source)
        return source.replace(self.old, self.new)


def faults(table: Path = TABLE) -> list[Fault]:
    """Return the faults of a table."""
    areas = tomllib.loads(table.read_text())["area"]
    rows = [(area["name"], fault) for area in areas for fault in area["fault"]]
    return [
        Fault(number, area, f"fgrad/{row['file']}", row["old"], row["new"], row["breaks"])
        for number, (area, row) in enumerate(rows, 1)
    ]
