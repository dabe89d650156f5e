"""`python -m fgrad.compat.autograd script.py [args]`: run a program that imports autograd on fgrad.

`-m module [args]` runs a module in place of a script.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from fgrad.compat.autograd.aliases import install

USAGE = "usage: python -m fgrad.compat.autograd script.py [arguments], or -m module [arguments]"


def main(arguments: list[str]) -> None:
    """Run the program given by the arguments."""
    if not arguments or arguments == ["-m"] or arguments[0] in ("-h", "--help"):
        raise SystemExit(USAGE)
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
