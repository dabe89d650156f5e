"""Looks at the built site in a browser, as a reader does, and lists what is wrong.

    python tools/docs_look.py [build/docs] [--out out/docs] [--pages index.html,gallery.html]

Every link of every page must lead somewhere, inside the site with its anchor. In headless Chromium, at the width of a
phone, no page may be wider than the window, and no picture may be missing; words typed into the search box must find
pages. Pictures of some pages, on a desktop and a phone, by day and by night, are left in a folder, to be looked at.
It exits with 1 if anything is wrong, and needs Chromium or Chrome, and tornado, which comes with Jupyter's kernels.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import functools
import http.server
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tornado.websocket import WebSocketClientConnection, websocket_connect

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = {"desktop": (1366, 900), "phone": (390, 844)}
LIGHTS = {"light": "default", "dark": "slate"}  # and the palette that the site takes
SHOWN = (
    "index.html",
    "tutorial.html",
    "gallery.html",
    "gallery/wave_fit.html",
    "how-to/fit.html",
    "how-to/loops.html",
    "comparison.html",
    "coverage-numpy.html",
    "api/fgrad.html",
    "api/fgrad.scipy.optimize.html",
)
WORDS = ("hessian", "error bars", "vmap")


# Links


class Page(HTMLParser):
    """The links and the anchors of a built page.

    Args:
        text: of the page.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what the attributes of an element refer to, and what it is called."""
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def broken_links(site: Path) -> list[str]:
    """Return what is wrong with the links of a site: each page, and the link."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    return [
        f"{path.relative_to(site)}: {link!r} {problem}"
        for path, page in pages.items()
        if path.name != "404.html"  # it is shown at any address, so its links begin at the root
        for link in dict.fromkeys(page.links)
        if (problem := _wrong_with(link, path, pages)) is not None
    ]


def _wrong_with(link: str, path: Path, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme in ("http", "https"):
        return None if parts.netloc and " " not in link else "is no address"
    if parts.scheme or parts.netloc:
        return None if parts.scheme in ("mailto", "data") else "is no address"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.exists():
        return "leads nowhere"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors | {"__skip"}:
        return "has no such anchor"
    return None


# The browser


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder on this machine, and yield its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def browser() -> Iterator[str]:
    """Start Chromium without a window, and yield the address by which one of its tabs is told what to do."""
    command = next(filter(None, map(shutil.which, BROWSERS)), None)
    if command is None:
        raise SystemExit(f"No browser: {', '.join(BROWSERS)} are not installed.")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
        process = subprocess.Popen(
            [command, *options, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield _address_of_a_tab(Path(folder) / "DevToolsActivePort")
        finally:
            process.terminate()
            process.wait()


def _address_of_a_tab(file: Path, patience: float = 60.0) -> str:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if file.exists() and (lines := file.read_text().split()):
            with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list") as answer:
                tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)
    raise SystemExit("The browser has not started.")


class Tab:
    """A tab of the browser, by Chrome's DevTools protocol.

    Args:
        connection: an open one to the tab.
    """

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self.connection, self.numbers, self.width = connection, itertools.count(1), "desktop"
        self.palette, self.forgets = LIGHTS["light"], False

    async def do(self, method: str, **params: Any) -> Any:
        """Send a command, and return its result."""
        number = next(self.numbers)
        await self.connection.write_message(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(await self.connection.read_message() or "{}")
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    async def evaluate(self, code: str) -> Any:
        """Return the value of JavaScript, awaited."""
        result = await self.do("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{code}: {result['exceptionDetails']}")
        return result["result"].get("value")

    async def look_as(self, width: str, light: str) -> None:
        """Take the size of a device, and prefer a palette."""
        self.width, self.palette = width, LIGHTS[light]
        if not self.forgets:  # the palette of the page before, which the site keeps
            await self.do("Page.enable")
            await self.do("Page.addScriptToEvaluateOnNewDocument", source="try { localStorage.clear() } catch {}")
            self.forgets = True
        await self._resize(WIDTHS[width][1])
        await self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": light}])

    async def _resize(self, height: int) -> None:
        size = {"width": WIDTHS[self.width][0], "height": height, "deviceScaleFactor": 1}
        await self.do("Emulation.setDeviceMetricsOverride", mobile=self.width == "phone", **size)

    async def open(self, address: str) -> None:
        """Open a page, and wait until all of it is there, in its colors; if these do not come, open it again."""
        palette = f"[undefined, '{self.palette}'].includes(document.body?.dataset.mdColorScheme)"
        for attempt in range(300):
            if attempt % 100 == 0:
                await self.do("Page.navigate", url=address)
            state = await self.evaluate(f"document.readyState + ' ' + location.href + ' ' + {palette}")
            if state == f"complete {address} true":
                break
            await asyncio.sleep(0.05)
        await self.evaluate("document.fonts.ready.then(() => 0)")

    async def picture(self, path: Path, tallest: int = 3000) -> None:
        """Write what the window shows, when it is made as high as the page."""
        await self._resize(min(await self.evaluate("document.documentElement.scrollHeight"), tallest))
        await asyncio.sleep(0.5)  # what fades in has done so
        data = (await self.do("Page.captureScreenshot"))["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))
        await self._resize(WIDTHS[self.width][1])


# What is looked at

TOO_WIDE = """
(() => {
  const wide = document.documentElement.scrollWidth, room = document.documentElement.clientWidth;
  if (wide <= room) return '';
  const clips = e => e && e !== document.body &&
    (['auto', 'scroll', 'hidden'].includes(getComputedStyle(e).overflowX) || clips(e.parentElement));
  const guilty = [...document.querySelectorAll('.md-content *')]
    .filter(e => e.getBoundingClientRect().right > room + 1 && !clips(e.parentElement))
    .map(e => e.tagName.toLowerCase() + ' ' + e.textContent.trim().slice(0, 60));
  return `is ${wide} pixels wide in a window of ${room}: ` + guilty.slice(0, 2).join('; ');
})()
"""
MISSING = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src).join(', ')"
CLICK = "document.querySelector('[for=__search]').click(); document.querySelector(BOX).focus()"
CLICK = CLICK.replace("BOX", "'[data-md-component=search-query]'")
SEEN = """
[...document.querySelectorAll('.md-search-result__item a')].filter(e => e.getBoundingClientRect().height > 0).length
"""


async def narrow_pages(tab: Tab, address: str, pages: list[str]) -> list[str]:
    """Return the pages that are wider than a phone, or show no picture where one should be."""
    found = []
    await tab.look_as("phone", "light")
    for page in pages:
        await tab.open(f"{address}/{page}")
        if problem := await tab.evaluate(TOO_WIDE):
            found.append(f"{page}: {problem}")
        if missing := await tab.evaluate(MISSING):
            found.append(f"{page}: no picture at {missing}")
    return found


async def results_of(tab: Tab, words: str, patience: int = 100) -> int:
    """Type words into the search box, and return how many results are shown, as soon as there are any."""
    await tab.evaluate(CLICK)
    await tab.do("Input.insertText", text=words)
    for _ in range(patience):
        if count := int(await tab.evaluate(SEEN)):
            return count
        await asyncio.sleep(0.1)
    return 0


async def searches(tab: Tab, address: str, out: Path) -> list[str]:
    """Return the words that find nothing, and leave a picture of what the last ones find."""
    found = []
    await tab.look_as("desktop", "light")
    for words in WORDS:
        await tab.open(f"{address}/index.html")
        count = await results_of(tab, words)
        print(f"search for {words!r}: {count} results")
        if not count:
            found.append(f"search for {words!r} finds nothing")
        await tab.picture(out / "search.png", tallest=WIDTHS["desktop"][1])
    return found


async def pictures(tab: Tab, address: str, pages: list[str], out: Path) -> None:
    """Leave pictures of pages, for each width and light."""
    for width, light in itertools.product(WIDTHS, LIGHTS):
        await tab.look_as(width, light)
        for page in pages:
            await tab.open(f"{address}/{page}")
            name = page.removesuffix(".html").replace("/", "-")
            await tab.picture(out / f"{name}-{width}-{light}.png")


async def look(site: Path, shown: list[str], out: Path) -> list[str]:
    """Return what is wrong with a site in the browser."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    with served(site) as address, browser() as debugger:
        tab = Tab(await websocket_connect(debugger, max_message_size=2**28))
        problems = await narrow_pages(tab, address, pages)
        problems += await searches(tab, address, out)
        await pictures(tab, address, shown, out)
        tab.connection.close()
    print(f"{len(pages)} pages; pictures of {len(shown)} in {out}")
    return problems


def main() -> int:
    """Look at the site that the command line names; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "build" / "docs")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "docs", help="the folder for the pictures")
    parser.add_argument("--pages", default=",".join(SHOWN), help="those of which pictures are left")
    options = parser.parse_args()
    site = options.site.resolve()
    problems = broken_links(site) + asyncio.run(look(site, options.pages.split(","), options.out))
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
