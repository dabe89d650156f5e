"""Links in the pages: the file or page that each one names exists, and so does the heading.

The pages in `docs/` link to each other, and to pages that are generated when the site is built, which `mkdocs.yml`
lists. The other pages are read in the repository, and link to files of it.
"""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import markdown
import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "fgrad/core/README.md")),
    *sorted(DOCS.rglob("*.md")),
]


class Page(HTMLParser):
    """The links and anchors of a page of Markdown.

    Args:
        text: of the page.

    Attributes:
        links: the targets of links and pictures, in order.
        anchors: the ids of headings and other elements.
    """

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        extensions = ["toc", "tables", "attr_list", "md_in_html", "pymdownx.superfences"]
        self.feed(markdown.markdown(text, extensions=extensions))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.append(value)
            elif name == "id":
                self.anchors.add(value)


@cache
def page_at(path):
    return Page(path.read_text(encoding="utf-8"))


@cache
def generated():
    """Return the pages that exist only in the built site: those in its navigation that are not files."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    def paths(entry):
        entries = entry.values() if isinstance(entry, dict) else entry
        return [entry] if isinstance(entry, str) else [path for each in entries for path in paths(each)]

    return {DOCS / path for path in paths(settings["nav"]) if not (DOCS / path).exists()}


def broken(path, page):
    """Return the relative links of a page, at a path, that lead nowhere."""
    found = []
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / parts.path).resolve()
        if not parts.path:
            is_right = parts.fragment in page.anchors
        elif parts.fragment:
            is_right = target.exists() and parts.fragment in page_at(target).anchors
        else:
            is_right = target.exists() or (path.is_relative_to(DOCS) and target in generated())
        if not is_right:
            found.append(link)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert broken(path, page_at(path)) == []


def test_links_and_anchors_are_found():
    linked = [link for path in PAGES for link in page_at(path).links]
    assert "how-to/memory.md#large-plain-arrays" in linked
    assert len([link for link in linked if "#" in link]) > 10
    assert "large-plain-arrays" in page_at(DOCS / "how-to" / "memory.md").anchors


@pytest.mark.parametrize(
    ("link", "is_broken"),
    [
        ("how-it-works.md", False),
        ("how-it-works.md#complex-numbers", False),
        ("#here", False),
        ("mistakes.md", False),
        ("https://numpy.org", False),
        ("how-it-worked.md", True),
        ("how-it-works.md#real-numbers", True),
        ("#there", True),
        ("api/fgrad.nothing.md", True),
        ("../CONTRIBUTING.md#adding-to-fgrad", False),
    ],
)
def test_a_broken_link_is_found(link, is_broken):
    page = Page(f"## Here\n\nSee [it]({link}), but not `[it](nothing.md)`.\n\n```text\n[it](nothing.md)\n```\n")
    assert broken(DOCS / "a-page.md", page) == ([link] if is_broken else [])
