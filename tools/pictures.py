"""The pictures of the pages: each is made by the code that stands above it on its page.

    python tools/pictures.py                                those of all pages, and the thumbnails of the gallery
    python tools/pictures.py docs/tutorial.md README.md     those of these pages

The examples of a page run in order, as the tests run them. Where a picture `![...](assets/NAME.svg)` follows, what the
name `figure` stands for by then is written to `docs/assets/NAME.svg`. A picture above all examples of its page is made
by those below. A page shows the code that draws as a part of its text, or folds it up in `<details>`.

A picture of the gallery, `docs/assets/gallery/NAME.png`, is the last one that the notebook
`examples/gallery/NAME.ipynb` shows, in fewer pixels.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import doctest
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import nbformat
import notebooks
from matplotlib.figure import Figure
from PIL import Image

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs" / "assets"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PICTURE = re.compile(r"^!\[[^\]]*\]\((?P<path>[^)]*assets/[\w-]+\.svg)\)", re.MULTILINE | re.DOTALL)
STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.figsize": (7.0, 3.0),
    "font.size": 10,
    "grid.alpha": 0.3,
    "path.simplify_threshold": 0.2,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "fgrad",
}


class Drawn(NamedTuple):
    """A picture of a page: where its file is, and the examples since the picture before."""

    file: Path
    examples: list[doctest.Example]


def drawn_on(page: Path) -> list[Drawn]:
    """Return the pictures of a page, in order, each with the examples between it and the one before.

    Args:
        page: the path of a page of Markdown.
    """
    text = page.read_text(encoding="utf-8")
    places = list(PICTURE.finditer(text))
    ends = [match.start() for match in places]
    if ends and not _examples(text[: ends[0]], page):  # the page opens with its picture
        ends[0] = places[1].start() if len(places) > 1 else len(text)
    starts = [0, *ends][: len(ends)]
    return [
        Drawn((page.parent / match["path"]).resolve(), _examples(text[start:end], page))
        for match, start, end in zip(places, starts, ends, strict=True)
    ]


def _examples(text: str, page: Path) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(text, page.name)


def figures(page: Path) -> Iterator[tuple[Path, Figure]]:
    """Run the examples of a page up to its last picture, and yield each picture's file and figure."""
    names: dict[str, Any] = {"__name__": page.stem}
    with matplotlib.rc_context(STYLE):
        matplotlib.use("svg")
        for file, examples in drawn_on(page):
            names.pop("figure", None)
            with contextlib.redirect_stdout(io.StringIO()):
                for example in examples:
                    _run(example, names, page)
            if not isinstance(names.get("figure"), Figure):
                raise SystemExit(f"{page}: no example above {file.name} makes a `figure`")
            yield file, names["figure"]


def _run(example: doctest.Example, names: dict[str, Any], page: Path) -> None:
    """Run one example; one that shows an exception raises it."""
    try:
        exec(compile(example.source, str(page), "single"), names)
    except Exception:
        if example.exc_msg is None:
            raise


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG, the same each time, without the numbers' needless digits."""
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r'(?<=[ "(])(d|transform|x|y|cx|cy|points)="[^"]*"', _rounded, buffer.getvalue())


def _rounded(attribute: re.Match[str]) -> str:
    """Return an attribute that says where something is, to a hundredth of a point."""
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), attribute[0])


def draw(page: Path) -> None:
    """Write the pictures of a page."""
    for file, figure in figures(page):
        file.write_text(as_svg(figure), encoding="utf-8")
        print(f"{file.relative_to(ROOT)}, {file.stat().st_size / 1000:.0f} kB")


def shrink(path: Path, width: int = 640) -> None:
    """Write the thumbnail of a notebook.

    Args:
        path: of the notebook.
        width: of the thumbnail, in pixels.
    """
    last = notebooks.pictures(nbformat.read(path, as_version=4))[-1]
    picture = Image.open(io.BytesIO(base64.b64decode(last))).convert("RGB")
    if picture.width > width:
        picture = picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)
    file = notebooks.thumbnail(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(48, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file.relative_to(ROOT)}, {file.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Draw what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, help="pages or notebooks; all, where none is named")
    for path in parser.parse_args().pages or [*PAGES, *sorted(notebooks.GALLERY.glob("*.ipynb"))]:
        if path.suffix == ".ipynb":
            shrink(path.resolve())
        else:
            draw(path.resolve())


if __name__ == "__main__":
    sys.exit(main())
