"""The page of a published stream, in a browser and as text; and each piece of code on it, run as it stands there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dotr.streams.connectors.serve.descriptions import resources
from dotr.streams.connectors.serve.descriptions.resources import stream_page
from dotr.streams.connectors.serve.kept import Keep
from dotr.streams.connectors.serve.section import About
from tests.support.browser import Browser, Page, chromium, running_browser
from tests.support.npm_packages import FOLDER
from tests.support.patience import PATIENCE
from tests.support.published import GRAPH, PublishedTest, published

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
HTML = "text/html"
needs_chromium = pytest.mark.skipif(chromium() is None and not os.environ.get("CI"), reason="Chromium is missing: apt-get install chromium")


class _Texts(HTMLParser):
    """The texts of elements that have an id, and the names of all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.names: list[str] = []
        self._open: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag not in ("meta", "link", "input"):
            self._open.append(dict(attrs).get("id"))

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for id in filter(None, self._open):
            self.texts[id] = self.texts.get(id, "") + data


def parsed(html: str) -> _Texts:
    found = _Texts()
    found.feed(html)
    return found


@pytest.fixture(scope="module")
def fires() -> Iterator[PublishedTest]:
    """A stream that has a hostile text in each element."""
    with published(about=About(f"Fires {HOSTILE}", "https://licence.example/by")) as served:
        served.add(range(1, 31), f'<http://e/room> <http://e/says> "{HOSTILE}" .\n{GRAPH}')
        yield served


def test_page_is_escaped_and_has_what_the_stream_is(fires: PublishedTest) -> None:
    answer = fires.get("", HTML)
    found = parsed(answer.text)
    assert found.names.count("script") == 1
    assert "img" not in found.names
    assert f"Fires {HOSTILE}" in answer.text.replace("&lt;", "<").replace("&gt;", ">")
    for text in ("30 of 30", "https://licence.example/by", "1970-01-01T00:00:30Z", fires.address):
        assert text in answer.text
    assert found.texts["elements"].count(':temp "3"') == 10
    assert HOSTILE in found.texts["elements"]


def test_policy_lets_the_page_do_what_it_needs_and_nothing_else(fires: PublishedTest) -> None:
    policy = fires.get("", HTML).headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules.pop("script-src").startswith("'sha256-")
    assert rules.pop("style-src").startswith("'sha256-")
    assert rules == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_links_are_right_with_and_without_a_slash_at_the_end(fires: PublishedTest) -> None:
    for path, below in (("", ""), (fires.address.rstrip("/"), "fire/")):
        with_slash = not path
        text = fires.get("", HTML).text if with_slash else fires.get_url(path, HTML).text
        assert f'href="{below}30000000-0"' in text
        assert f'data-base="{below}"' in text


def test_stream_at_the_root_has_links_of_its_own() -> None:
    with published(path="") as served:
        served.add([7])
        assert 'href="7000000-0"' in served.get("", HTML).text


def test_empty_stream_has_a_page() -> None:
    with published(about=About("Nothing yet")) as served:
        assert "There are none yet." in served.get("", HTML).text


def test_page_without_a_token_tells_how_to_read_and_nothing_of_the_stream() -> None:
    with published(about=About("Secret fires"), tokens=lambda: "s3cret") as served:
        served.add([7])
        answer = served.get("", HTML)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "authorization" in answer.text
        assert 'id="token"' in answer.text
        for secret in ("Secret", "7000000-0", "s3cret", ":temp"):
            assert secret not in answer.text
        assert served.get("", "text/turtle").status == 401
        assert json.loads(served.get("", "*/*").body)["error"]
        with_token = served.get("", HTML, Authorization="Bearer s3cret")
        assert with_token.status == 200
        assert "7000000-0" in with_token.text


# --- in a browser ---


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


def ids(page: Page) -> list[object]:
    found = page.evaluate("[...document.querySelectorAll('#elements a')].map((link) => link.textContent)")
    assert isinstance(found, list)
    return found


def shown(page: Page, id: str) -> None:
    page.wait(f"[...document.querySelectorAll('#elements a')].some((link) => link.textContent === {json.dumps(id)})")


def status(page: Page, text: str) -> None:
    page.wait(f"document.getElementById('status').textContent === {json.dumps(text)}")


@pytest.mark.browser
@needs_chromium
def test_new_elements_appear_and_the_keyboard_pauses_them(browser: Browser) -> None:
    with published() as served:
        served.add([1], f'<http://e/room> <http://e/says> "{HOSTILE}" .')
        with browser.page(served.address, width=390, height=844) as page:
            status(page, "Live")
            served.add([2, 3], f'<http://e/room> <http://e/says> "{HOSTILE}" .')
            shown(page, "3000000-0")
            assert ids(page) == ["3000000-0", "2000000-0", "1000000-0"]
            items = page.evaluate("[...document.querySelectorAll('#elements li')].map((item) => item.innerText.replace(/\\d+/g, ''))")
            assert isinstance(items, list)
            assert len(set(map(str, items))) == 1  # the script shows elements as the server does
            page.press("Tab")
            assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
            for _ in range(12):
                if page.evaluate("document.activeElement.id") == "pause":
                    break
                page.press("Tab")
            page.press("Enter")
            status(page, "Paused")
            served.add([4])
            status(page, "Paused: 1 new")
            assert len(ids(page)) == 3
            page.press("Enter")
            status(page, "Live")
            assert ids(page)[0] == "4000000-0"
            served.add(range(5, 20))
            shown(page, "19000000-0")
            assert len(ids(page)) == 10
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            served.stream.end(is_stopped=False)
            status(page, "The stream has ended")
            assert page.console == []
            assert all(url.startswith(served.address) for url in page.requests), page.requests


@pytest.mark.browser
@needs_chromium
def test_page_goes_on_where_its_elements_have_left(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that leave between the page and its first request for new ones are replaced by the latest."""
    with published(keep=Keep(elements=250)) as served:
        served.add(range(1, 5))

        def late(*arguments: Any, **named: Any) -> str:
            html = stream_page(*arguments, **named)
            if served.stream.kept.next == 4:
                served.add(range(5, 605))
            return html

        monkeypatch.setattr(resources, "stream_page", late)
        with browser.page(served.address) as page:
            status(page, "Live")
            shown(page, "604000000-0")
            assert ids(page) == [f"{number}000000-0" for number in range(604, 594, -1)]


@pytest.mark.browser
@needs_chromium
def test_page_works_without_script_and_in_both_schemes(browser: Browser, fires: PublishedTest) -> None:
    with browser.page(fires.address, script=False) as page:
        assert page.console == []
    colours = []
    for scheme in ("light", "dark"):
        with browser.page(fires.address, width=1280, scheme=scheme) as page:
            status(page, "Live")
            colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(246, 248, 250)", "rgb(15, 20, 27)"]


@pytest.mark.browser
@needs_chromium
def test_token_of_the_form_brings_new_elements(browser: Browser) -> None:
    with published(tokens=lambda: "s3 cret&"[3:]) as served:
        served.add([1])
        with browser.page(served.address) as page:
            status(page, "Not connected: it needs a token")
            page.evaluate("document.querySelector('#token input').focus()")
            page.type("wrong")
            page.press("Enter")
            status(page, "Not connected: is the token right?")
            page.evaluate("document.querySelector('#token input').select()")
            page.type("cret&")
            page.press("Enter")
            status(page, "Live")
            shown(page, "1000000-0")


# --- the code on the page ---


@pytest.fixture(scope="module")
def code(fires: PublishedTest) -> dict[str, str]:
    return parsed(fires.get("", HTML).text).texts


@contextmanager
def more(served: PublishedTest) -> Iterator[None]:
    """Meanwhile a new element comes every 0.1 s."""
    stop = threading.Event()

    def add() -> None:
        while not stop.wait(0.1):
            served.add([served.stream.kept.next + 1])

    adding = threading.Thread(target=add)
    adding.start()
    try:
        yield
    finally:
        stop.set()
        adding.join()


def first_line(command: list[str]) -> str:
    """The first line that is not empty of a command without end, which is ended then."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            return next(line for line in process.stdout if line.strip())
        finally:
            timer.cancel()
            process.kill()


@pytest.mark.curl
def test_curl_on_the_page_runs(fires: PublishedTest, code: dict[str, str]) -> None:
    latest, events = code["curl"].splitlines()
    found = subprocess.run(["bash", "-c", latest], capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"prov:generatedAtTime", found)) == 5
    with more(fires):
        assert first_line(["bash", "-c", f"exec {events}"]).startswith("id: ")


def test_python_on_the_page_runs(fires: PublishedTest, code: dict[str, str]) -> None:
    found = subprocess.run([sys.executable, "-c", code["rdflib"]], capture_output=True, text=True, check=True).stdout
    assert len([line for line in found.splitlines() if line.startswith(fires.address) and line.endswith(("1", "2"))]) == 5
    with more(fires):
        assert "'@graph'" in first_line([sys.executable, "-u", "-c", code["python"]])


@pytest.mark.curl
def test_code_on_the_page_has_the_token_where_one_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    with published(tokens=lambda: "s3cret") as served:
        served.add([1, 2])
        code = parsed(served.get("", HTML).text).texts
        for command in (["bash", "-c", code["curl"].splitlines()[0]], [sys.executable, "-c", code["rdflib"]]):
            found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert f"{served.address}2000000-0" in found
        assert "s3cret" not in "".join(code.values())
        with more(served):
            assert "'@graph'" in first_line([sys.executable, "-u", "-c", code["python"]])


@pytest.mark.browser
@needs_chromium
def test_javascript_on_the_page_runs(browser: Browser, fires: PublishedTest, code: dict[str, str]) -> None:
    with browser.page(fires.address) as page, more(fires):
        page.evaluate(f"window.said = []; console.log = (...all) => window.said.push(all); {code['javascript']}; 0")
        page.wait("window.said.length > 1 && window.said[0][0].endsWith('-0') && '@graph' in window.said[0][1]")


@pytest.mark.npm
def test_ldes_client_on_the_page_reads_all_that_is_kept_and_follows(npm: Path) -> None:
    assert npm == FOLDER
    with published(keep=Keep(elements=300)) as served:
        served.add(range(700))
        command = parsed(served.get("", HTML).text).texts["ldes"].replace("npx ", "npx --no-install ", 1)
        command = f"exec {command} --ordered ascending --poll-interval 300"
        kept = [f"<{served.address}{number}000000-0>" for number in range(250, 700)]
        with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True, cwd=FOLDER, start_new_session=True) as process:
            timer = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
            timer.start()
            try:
                assert process.stdout is not None
                lines = filter(str.strip, process.stdout)
                quads = list(islice(lines, 4 * len(kept)))  # its time, rule and number, and one of its graph
                assert [line.split(" ")[0] for line in quads if "<urn:dotr:number>" in line] == kept
                assert sum("<http://e/temp>" in line for line in quads) == len(kept)
                served.add(range(700, 790))  # the open page is filled, and another one begins; none leaves, since this client ends on 410
                followed = list(islice(lines, 4 * 90))
                assert [line.split(" ")[0] for line in followed if "<urn:dotr:number>" in line] == [
                    f"<{served.address}{number}000000-0>" for number in range(700, 790)
                ]
            finally:
                timer.cancel()
                os.killpg(process.pid, signal.SIGKILL)
