"""The tool that looks at the built site finds what is wrong with one."""

import asyncio
import shutil

import docs_look as tool
import pytest
from tornado.websocket import websocket_connect

PAGE = """<!DOCTYPE html><html><head><meta name="viewport" content="width=device-width"></head>
<body><h1 id="top">Title</h1>{}</body></html>"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "index.html").write_text(PAGE.format('<a href="part/one.html#here">one</a>'))
    (tmp_path / "part" / "one.html").write_text(PAGE.format('<p id="here"><a href="../index.html#top">up</a></p>'))
    return tmp_path


def test_right_links(site):
    assert tool.broken_links(site) == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("part/two.html", "leads nowhere"),
        ("part/one.html#there", "has no such anchor"),
        ("#there", "has no such anchor"),
        ("part", "leads nowhere"),  # a folder without a first page
        ("https://", "is no address"),
        ("htp://numpy.org", "is no address"),
        ("https://numpy.org/doc", None),
        ("mailto:one@example.org", None),
        ("#top", None),
    ],
)
def test_a_broken_link_is_found(site, link, problem):
    (site / "index.html").write_text(PAGE.format(f'<a href="{link}">it</a>'))
    assert tool.broken_links(site) == ([] if problem is None else [f"index.html: {link!r} {problem}"])


@pytest.mark.skipif(not any(map(shutil.which, tool.BROWSERS)), reason="needs Chromium")
def test_what_a_phone_shows(site):
    wide = '<div class="md-content"><p style="width: 800px">wide</p></div>'
    (site / "wide.html").write_text(PAGE.format(wide))
    (site / "scrolls.html").write_text(PAGE.format(f'<div style="overflow-x: auto">{wide}</div>'))
    (site / "bare.html").write_text(PAGE.format('<img src="none.png">'))
    pages = ["bare.html", "index.html", "scrolls.html", "wide.html"]

    async def looked_at():
        with tool.served(site) as address, tool.browser() as debugger:
            tab = tool.Tab(await websocket_connect(debugger))
            problems = await tool.narrow_pages(tab, address, pages)
            await tool.pictures(tab, address, ["index.html"], site / "out")
            tab.connection.close()
        return problems

    bare, broad = asyncio.run(looked_at())
    assert bare.startswith("bare.html: no picture at http://127.0.0.1")
    assert broad.startswith("wide.html: is 8")
    assert "in a window of 390: " in broad
    names = sorted(path.name for path in (site / "out").iterdir())
    assert names == [f"index-{width}-{light}.png" for width in ("desktop", "phone") for light in ("dark", "light")]
