"""The pictures of the pages: each is on a page, is small, and is what the code beside it draws."""

import re

import matplotlib
import pictures as tool
import pytest

WITH_PICTURES = [page for page in tool.PAGES if tool.drawn_on(page)]


@pytest.fixture(autouse=True)
def the_backend_stays():
    before = matplotlib.get_backend()
    yield
    matplotlib.use(before)


def test_every_picture_is_on_a_page_and_is_small():
    linked = {drawn.file for page in WITH_PICTURES for drawn in tool.drawn_on(page)}
    assert linked == set(tool.ASSETS.glob("*.svg"))
    assert [path.name for path in linked if path.stat().st_size >= 60_000] == []
    shown = "\n".join(page.read_text(encoding="utf-8") for page in tool.PAGES)
    assert [path.name for path in tool.ASSETS.glob("gallery/*") if f"assets/gallery/{path.name})" not in shown] == []


def test_guides_to_what_one_looks_at_have_pictures():
    names = {page.stem for page in WITH_PICTURES}
    assert names >= {"README", "index", "tutorial", "fit", "simulate", "optimize", "loops", "random", "hessians"}
    assert names >= {"sparse-derivatives", "high-orders"}


def content(svg):
    """Return what a picture consists of: its parts and its words, not where they are."""
    return re.findall(r'<g id="([A-Za-z]+_\d+)"', svg), re.findall(r">([^<>\s][^<>]*)</text>", svg)


@pytest.mark.parametrize("page", WITH_PICTURES, ids=lambda page: page.stem)
def test_a_picture_is_what_the_page_draws(page):
    drawn = {file: tool.as_svg(figure) for file, figure in tool.figures(page)}
    assert len(drawn) == len(tool.drawn_on(page))
    for file, svg in drawn.items():
        parts, words = content(svg)
        assert len(parts) > 5
        assert words
        assert content(file.read_text(encoding="utf-8")) == (parts, words), f"{file.name}: run tools/pictures.py {page}"


# The tests of the tests

BELOW = """
# A page

```pycon
>>> import matplotlib.pyplot as plt
>>> figure, axes = plt.subplots()
>>> axes.plot([1, 2])
[...]

```

![One.](assets/one.svg)

{between}

![Two.](assets/two.svg)
"""


def test_the_examples_above_a_picture_draw_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(BELOW.format(between=">>> figure = plt.figure()\n"))
    (one, first), (two, second) = tool.figures(page)
    assert (one.name, two.name) == ("one.svg", "two.svg")
    assert len(first.axes) == 1
    assert len(second.axes) == 0
    assert tool.as_svg(first) == tool.as_svg(first)


def test_a_picture_without_code_is_an_error(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(BELOW.format(between=">>> 1 + 1\n2\n"))
    with pytest.raises(SystemExit, match=r"no example above two\.svg makes a `figure`"):
        list(tool.figures(page))


def test_a_page_may_open_with_its_picture(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n![It.](assets/it.svg)\n\n" + BELOW[: BELOW.index("![One")])
    ((file, figure),) = tool.figures(page)
    assert file.name == "it.svg"
    assert len(figure.axes) == 1
