"""The pages that the hooks of MkDocs make of docstrings, notebooks and files of the root."""

import inspect
import re

import api_pages
import error_messages
import nbformat
import notebook_pages
import notebooks
import pytest
import yaml

from fgrad import errors

TWO_COLUMNS = """What there is:

    grad, jvp           derivatives
    plan(f, (1, 2))     a plan

    >>> 1 + 1
    2

    plain text
    of two lines
"""


def test_two_columns_of_a_docstring_are_a_table():
    what, table, example, text = api_pages.markdown_of(TWO_COLUMNS).split("\n\n")
    assert what == "What there is:"
    assert table.splitlines() == [
        "| names | what they are for |",
        "| --- | --- |",
        "| `grad`, `jvp` | derivatives |",
        "| `plan(f, (1, 2))` | a plan |",
    ]
    assert example == "```pycon\n>>> 1 + 1\n2\n```"
    assert text == "```text\nplain text\nof two lines\n```"


OF_AN_ERROR = """A class.

    >>> def half(x):
    ...     raise ValueError(f"{x} is odd\\n\\nuse 2")
    >>> half(3)
    Traceback (most recent call last):
    ValueError: ...

Then:

    >>> 1 / 0
    Traceback (most recent call last):
    fgrad.errors.OtherError: ...
"""


def test_messages_are_filled_in():
    shown = error_messages.with_messages(OF_AN_ERROR)
    assert "    ValueError: 3 is odd\n    use 2\n\nThen:" in shown
    assert "    fgrad.errors.OtherError: ..." in shown  # not what the example says


def test_every_example_of_an_error_has_its_message():
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    elided = {each.__name__: inspect.getdoc(each) for each in classes if ": ...\n" in (each.__doc__ or "")}
    assert len(elided) > 50
    texts = {name: error_messages.with_messages(text) for name, text in elided.items()}
    assert [name for name, text in texts.items() if re.search(r"Error: \.\.\.$", text, re.MULTILINE)] == []
    assert "at example.py:4: fg.grad(f(3.0))" in texts["NotCallableError"]


def test_a_notebook_is_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    cell = nbformat.v4.new_code_cell("1 + 1")
    cell.outputs = [
        nbformat.v4.new_output("execute_result", {"text/plain": "2", "text/html": "<b>2</b>"}),
        nbformat.v4.new_output("display_data", {"image/png": "aGVsbG8=", "text/plain": "<Figure>"}),
        nbformat.v4.new_output("stream", text="said\n"),
    ]
    title = nbformat.v4.new_markdown_cell("# Title\n\n[There](../../docs/how-to/loops.md).")
    nbformat.write(nbformat.v4.new_notebook(cells=[title, cell]), tmp_path / "a.ipynb")
    text, pictures = notebook_pages.page(tmp_path / "a.ipynb")
    assert pictures == {"a-0.png": b"hello"}
    assert text.split("\n\n") == [
        "# Title",
        "[There](../how-to/loops.md).",
        "```python\n1 + 1\n```",
        "```text\n2\n```",
        "![What the cell above draws.](a-0.png)",
        "```text\nsaid\n```",
        "This page is the notebook `a.ipynb`.\n",
    ]


def test_every_notebook_is_in_the_navigation_and_the_gallery():
    settings = (notebooks.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = str(yaml.safe_load(settings)["nav"])
    gallery = (notebooks.ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for path in notebooks.NOTEBOOKS:
        assert f"gallery/{path.stem}.md" in navigation
        assert f"(gallery/{path.stem}.md)" in gallery
    assert len({path.stem for path in notebooks.NOTEBOOKS}) == len(notebooks.NOTEBOOKS)


@pytest.mark.parametrize("name", notebook_pages.FROM_THE_ROOT)
def test_pages_of_the_root_link_into_the_site_alone(name):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", notebook_pages.from_the_root(name))
    pages = {each.lower() for each in notebook_pages.FROM_THE_ROOT}
    inner = [link for link in links if not link.startswith("http") and link not in pages]
    assert [link for link in inner if not (notebooks.ROOT / "docs" / link).exists()] == []


def test_files_of_the_repository_are_named():
    text = "See [`examples/export`](../../examples/export), [a program](../examples/digits.py) and [a page](fit.md)."
    shown = "See `examples/export`, a program (`examples/digits.py`) and [a page](fit.md)."
    assert notebook_pages.on_page_markdown(text, page=None) == shown
