"""A hook of MkDocs: the notebooks of `examples/` as pages, with what their cells show, and two files of the root.

gallery/NAME.md     the notebook `NAME.ipynb`, with its pictures beside it
contributing.md     CONTRIBUTING.md
changelog.md        CHANGELOG.md
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import notebooks
from mkdocs.structure.files import File, Files

FROM_THE_ROOT = ("CONTRIBUTING.md", "CHANGELOG.md")


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and the pictures to which that links, by name.

    Args:
        path: of the notebook.
    """
    parts: list[str] = []
    found: dict[str, bytes] = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(re.sub(r"\]\((\.\./)+docs/", "](../", cell.source))
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for kind, content in _shown(cell.outputs):
            if kind == "text":
                parts.append(f"```text\n{content.rstrip()}\n```")
            else:
                name = f"{path.stem}-{len(found)}.png"
                found[name] = base64.b64decode(content)
                parts.append(f"![What the cell above draws.]({name})")
    parts.append(f"This page is the notebook `{path.relative_to(notebooks.ROOT)}`.")
    return "\n\n".join(parts) + "\n", found


def _shown(outputs: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield what a cell shows: its kind, and the text or the picture in base 64."""
    for output in outputs:
        data = output.get("data", {})
        if "image/png" in data:
            yield "picture", data["image/png"]
        elif text := data.get("text/plain", output.get("text", "")).strip("\n"):
            yield "text", text


def from_the_root(name: str) -> str:
    """Return a page of the root for the site, which links to its pages; the names of other files become plain text."""
    text = (notebooks.ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/", "](", text)
    for other in FROM_THE_ROOT:
        text = text.replace(f"]({other}", f"]({other.lower()}")
    return re.sub(r"\[([^\]]+)\]\((?!http)[A-Z_]+\.md\)", r"`\1`", text)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name the files of the repository to which a page links, as they are not part of the site."""
    markdown = re.sub(r"\[(`[^`\]]+`)\]\((?:\.\./)+examples/[^)]*\)", r"\1", markdown)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(examples/[^)]*)\)", r"\1 (`\2`)", markdown)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to those that lie in `docs`."""
    for path in notebooks.NOTEBOOKS:
        text, pictures = page(path)
        files.append(File.generated(config, f"gallery/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"gallery/{name}", content=content))
    for name in FROM_THE_ROOT:
        files.append(File.generated(config, name.lower(), content=from_the_root(name)))
    return files
