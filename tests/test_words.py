"""Unclear phrases do not come back into prose that was revised; `PHRASES` lists them, with what to write instead.

Prose is docstrings, comments, messages and pages. `CLEAN` lists what has been revised: packages and pages are added to
it after a revision. Not checked yet: the table of coverage, which a program makes.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLEAN = (  # patterns of files, from the root of the repository
    "README.md",
    "docs/[!c]*.md",
    "docs/comparison.md",
    "docs/how-to/*.md",
    "fgrad/*.py",
    "fgrad/*.pyi",
    "fgrad/compat/**/*",
    "fgrad/core/**/*",
    "fgrad/debugging/**/*",
    "fgrad/distributed/**/*",
    "fgrad/engines/**/*",
    "fgrad/errors/**/*",
    "fgrad/graphs/**/*",
    "fgrad/interop/**/*",
    "fgrad/loops/**/*",
    "fgrad/native/**/*",
    "fgrad/numpy/**/*",
    "fgrad/ops/**/*",
    "fgrad/optimizers/**/*",
    "fgrad/patterns/**/*",
    "fgrad/random/**/*",
    "fgrad/rules/**/*",
    "fgrad/scipy/**/*",
    "fgrad/tapes/**/*",
    "fgrad/transforms/**/*",
)
LIBRARY = "(?:Python|NumPy|SciPy|JAX|PyTorch|TensorFlow|dask|fgrad)"
PHRASES = {  # a regular expression without groups: what to write instead
    r"and the like|or the like": "name the things, or 'similar functions'",
    r"all else": "name the rest: 'other keywords'",
    r"everything else|anything else": "name the rest: 'other arguments'",
    r"in (?:its|their) turn|(?:its|their) turn to": "leave it out, or 'then'",
    r"(?:is|are|was|were|be|been) told": "'is given', 'is passed', 'receives'",
    r"told (?:from|apart|of)": "'distinguished from', 'reported'",
    r"nobody|somebody|whoever": "a noun: 'the caller', or a passive",
    r"who(?:ever)? (?:looks|asks|wants|writes|reads|runs)": "a noun: 'the caller', 'a reader'",
    r"(?:is|are|was|were|be) asked": "'is requested', 'is called with'",
    r"asked for": "'requested'",
    r"asked (?:a|an|the) (?:traced )?tensor": "'requested ... from a traced tensor'",
    r"(?:is|are|was|were|be) handed": "'is passed'",
    r"hands? (?:on|it on|out|back)": "'pass', 'return'",
    r"have to say|has to say": "what the code does",
    r"(?:has|have) to do with": "'depends on', 'concerns'",
    r"what it takes": "'the requirements'",
    r"put together": "'combined', 'assembled', 'batched'",
    r"pass(?:es)? back": "'backward pass'",
    r"the way back": "'the backward pass'",
    r"looks? at values|look at the number": "'depends on values', 'the plain number'",
    r"as it should be": "the condition",
    r"there is to": "the noun itself: 'the available ...'",
    r"differentiated by (?!copies)": "'with respect to'",
    r"(?:derivatives?|gradients?|Jacobians?|Hessians?) by (?:the |its |an? )?(?:argument|parameter|variable|input)":
        "'with respect to'",
    r"nested (?:as|otherwise)": "'with the same structure', 'with a different structure'",
    r"for itself": "'separately'",
    r"(?:rules?|derivatives?|modules?|memory|loops?|class) of (?:its|their) own": "'a custom rule', 'a separate loop'",
    rf"(?:an?|the|of|in|from) [a-z]+ of {LIBRARY}'s(?= ?[.,;:)]| (?:is|are|in|with|that|and|or|to|of)\b)":
        "the name as an adjective: 'a NumPy function', 'Python numbers'",
    r"(?:outline|arrays?|shapes?|state|trees?|structures?) (?:does|do|did) not fit": "'does not match'",
    r"nothing follows|follows? (?:it|them) (?:further|no)": "'is not traced'",
    r"this room|the rooms?": "'this package', 'the packages'",
    r"is none: ": "'is not a ...: '",
    r"(?:the )?code (?:knows|wants|asks|tells|looks)|(?:fgrad|NumPy) (?:knows|wants|asks|tells|looks(?! up))":
        "what it does: 'depends on', 'requires', 'reads'",
}  # fmt: skip

ANY_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield comments and strings of Python code with the numbers of their lines; of other files, each line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix not in (".py", ".pyi"):
        yield from enumerate(text.splitlines(), 1)
        return
    parts = {"COMMENT", "STRING", "FSTRING_MIDDLE"}  # the last one since Python 3.12
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type] in parts:
            yield from enumerate(token.string.splitlines(), token.start[0])


def found_in(path: Path, name: str) -> list[str]:
    """Return a line for each phrase in the prose of a file: file, line, phrase, and what to write instead."""
    return [
        f"{name}:{n}: {match.group()!r}, instead {instead}"
        for n, line in prose(path)
        if ANY_PHRASE.search(line)
        for phrase, instead in PHRASES.items()
        for match in re.finditer(rf"\b(?:{phrase})", line)
    ]


@pytest.mark.parametrize("pattern", CLEAN)
def test_revised_prose_has_none_of_the_phrases(pattern):
    paths = sorted(path for path in ROOT.glob(pattern) if path.suffix in (".py", ".pyi", ".md"))
    assert paths
    found = [line for path in paths for line in found_in(path, path.relative_to(ROOT).as_posix())]
    assert not found, "\n".join(["", *found])


def test_a_phrase_is_found_in_prose_and_not_in_code(tmp_path):
    path = tmp_path / "part.py"
    path.write_text('"""A sum.\n\nIt is told.\n"""\n\nnobody = "x"  # a loop of Python\'s.\nput = together = nobody\n')
    assert [found.partition(", instead")[0] for found in found_in(path, "part.py")] == [
        "part.py:3: 'is told'",
        'part.py:6: "a loop of Python\'s"',
    ]
    path = tmp_path / "page.md"
    path.write_text("First.\nThe derivative by the argument, put together.\n")
    assert [found.partition(", instead")[0] for found in found_in(path, "page.md")] == [
        "page.md:2: 'put together'",
        "page.md:2: 'derivative by the argument'",
    ]
