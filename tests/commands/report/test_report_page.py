"""The page of `dotr report` in a browser: no console messages, no requests, drawings, and reactions to clicks."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.commands.report.data import Lane, LaneKind, ReportData, ReportedEvent
from dotr.commands.report.writing import page as page_text
from dotr.commands.report.writing import write_report
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.time import Clock, Unit
from tests.commands.report.test_report import HOSTILE
from tests.conftest import Project
from tests.support.browser import Browser, Page, chromium, running_browser
from tests.support.paths import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.skipif(chromium() is None, reason="there is no Chromium")]

WIDTH = 1400


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "city.html"
    write_report(str(ROOT / "configs/city.yaml"), str(path))
    return path


def ready(page: Page) -> None:
    page.wait("document.documentElement.dataset.ready === 'yes'")


def assert_quiet(page: Page, path: Path) -> None:
    """Nothing on the console, and no request but for the file."""
    assert page.console == []
    assert page.requests == [path.resolve().as_uri()]


def point(page: Page, lane: str, position: int) -> tuple[float, float]:
    """The place of a point in the window, which is scrolled there."""
    place = page.evaluate(
        f"""(() => {{
          const {{ lanes, state, xs }} = dotrReport, row = lanes.findIndex((lane) => lane.name === {json.dumps(lane)}), u = state.timeline;
          document.getElementById("timeline-chart").scrollIntoView({{ behavior: "instant", block: "center" }});
          const box = u.over.getBoundingClientRect();
          return [box.left + u.valToPos(xs[lanes[row].at[{position}]], "x"), box.top + u.valToPos(row, "y")];
        }})()"""
    )
    assert isinstance(place, list)
    x, y = place
    return x, y


def number(page: Page, expression: str) -> int:
    """The value of an expression that is an integer."""
    value = page.evaluate(expression)
    assert isinstance(value, int), value
    return value


def detail(page: Page) -> str:
    return str(page.evaluate("document.getElementById('detail').innerText"))


def test_city_is_drawn_without_console_messages_and_requests(browser: Browser, city: Path) -> None:
    with browser.page(city) as page:
        ready(page)
        assert page.evaluate("document.querySelectorAll('canvas').length") == 2
        assert number(page, "dotrReport.state.drawn") > 200
        assert page.evaluate("document.querySelectorAll('#events tbody tr').length") == 20
        assert_quiet(page, city)


def test_policy_refuses_connections_and_scripts(browser: Browser, city: Path) -> None:
    with browser.page(city) as page:
        ready(page)
        assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'loaded', () => 'refused')") == "refused"
        page.evaluate("document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = true' }))")
        assert page.evaluate("window.ran === undefined") is True
        assert any("Content Security Policy" in line for line in page.console)


def test_click_opens_the_event(browser: Browser, city: Path) -> None:
    with browser.page(city, width=WIDTH) as page:
        ready(page)
        page.click(*point(page, "SlowNearFullCarPark", 0))
        page.wait("document.getElementById('detail').dataset.event !== undefined")
        text = detail(page)
        assert "at 2024-05-14T11:50:00Z" in text
        assert "by rule SlowNearFullCarPark" in text
        assert "section:AD" in text
        assert "urn:dotr:" in text
        assert_quiet(page, city)


def test_event_opens_its_proof(browser: Browser, project: Project) -> None:
    write_report(str(ROOT / "configs/fire.yaml"), "fire.html")
    with browser.page(project.folder / "fire.html", width=WIDTH) as page:
        ready(page)
        page.click(*point(page, "R", 0))
        page.wait("document.querySelector('#detail .tree') !== null")
        text = detail(page)
        assert "last HighTemp at 10, 2 s before" in text
        assert re.search(r":locB :is_in_room :roomA\s+\S*building.ttl", text)
        page.evaluate("document.querySelector('#detail [data-step=\"1\"]').click()")
        assert "Fire at 30" in detail(page)
        assert page.evaluate("document.activeElement.dataset.step") is None, "the last event has no later one"
        assert_quiet(page, project.folder / "fire.html")


def test_commands_can_be_copied_and_run(browser: Browser, project: Project) -> None:
    project.write("my c.yaml", project.read("c.yaml"))
    assert project.dotr("report", "my c.yaml", "-o", "report.html", "--set", "name=two words", "--proofs", "0").code == 0
    with browser.page(project.folder / "report.html", width=WIDTH) as page:
        ready(page)
        assert page.evaluate("document.querySelector('#detail pre') === null")
        page.click(*point(page, "R", 0))
        page.wait("document.querySelector('#detail .command pre') !== null")
        words = shlex.split(str(page.evaluate("document.querySelector('#detail .command pre').textContent")))
        assert words[:3] == ["dotr", "why", "my c.yaml"]
        assert words[4:] == ["--set", "name=two words"]
        assert project.dotr(*words[1:]).code == 0
        page.click(*point(page, "A", 0))
        page.wait("document.querySelector('#detail h3').textContent.startsWith('A:')")
        words = shlex.split(str(page.evaluate("document.querySelector('#detail .command pre').textContent")))
        assert words == ["dotr", "facts", "my c.yaml", "--at", "1", "--set", "name=two words"]
        assert project.dotr(*words[1:]).code == 0


def test_list_opens_an_event_by_keyboard(browser: Browser, city: Path) -> None:
    with browser.page(city, width=WIDTH) as page:
        ready(page)
        page.evaluate("document.querySelector('#events tbody tr:nth-child(2) button').focus()")
        page.press("Enter")
        page.wait("document.getElementById('detail').dataset.event === '1'")
        assert page.evaluate("document.querySelector('#events tr.current').rowIndex") == 2
        page.evaluate("document.querySelector('#detail [data-step=\"1\"]').click()")
        assert page.evaluate("document.activeElement.dataset.step") == "1"
        assert "dotr why" in detail(page)
        assert_quiet(page, city)


def test_click_on_facts_gives_the_command(browser: Browser, city: Path) -> None:
    with browser.page(city, width=WIDTH) as page:
        ready(page)
        page.click(*point(page, "StrongWind", 0))
        page.wait("document.getElementById('detail').innerText.includes('StrongWind')")
        assert "--at 2024-05-14T15:20:00Z" in detail(page)


def test_drag_keys_and_buttons_move_the_timeline(browser: Browser, city: Path) -> None:
    with browser.page(city, width=WIDTH) as page:
        ready(page)
        whole = page.evaluate("dotrReport.view.max - dotrReport.view.min")
        assert isinstance(whole, int | float)
        x, y = point(page, "weather", 10)
        page.drag(x, y, x + 200)
        page.wait(f"dotrReport.view.max - dotrReport.view.min < {whole / 2}")
        page.frame()
        assert page.evaluate("dotrReport.state.overview.select.width > 0")
        page.evaluate("document.getElementById('timeline-chart').focus()")
        page.press("0")
        page.wait(f"dotrReport.view.max - dotrReport.view.min === {whole}")
        page.press("+")
        page.wait(f"dotrReport.view.max - dotrReport.view.min === {whole / 2}")
        before = page.evaluate("dotrReport.view.min")
        page.press("ArrowRight")
        page.wait(f"dotrReport.view.min > {before}")
        page.frame()
        assert page.evaluate("dotrReport.state.timeline.scales.x.min === dotrReport.view.min")
        assert_quiet(page, city)


def test_colours_follow_the_system_and_the_switch(browser: Browser, city: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    pixel = "Array.from(document.querySelector('#timeline-chart canvas').getContext('2d').getImageData(0, 0, 2000, 2000).data).join()"
    with browser.page(city, scheme="dark") as page:
        ready(page)
        dark, drawn = page.evaluate(background), page.evaluate(f"{pixel}.length")
        assert drawn
        page.evaluate("document.getElementById('theme').click()")
        light = page.evaluate(background)
        assert page.evaluate("document.getElementById('theme').textContent") == "Theme: light"
        assert light != dark
        page.prefer("light")
        page.evaluate("document.getElementById('theme').click()")
        assert page.evaluate(background) == dark
        page.evaluate("document.getElementById('theme').click()")
        assert page.evaluate(background) == light
        assert_quiet(page, city)


def test_texts_have_enough_contrast(browser: Browser, city: Path) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5, of the colours of texts on those of surfaces."""
    ratio = """((one, other) => {
      const luminance = (name) => {
        const canvas = document.createElement("canvas").getContext("2d");
        canvas.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        canvas.fillRect(0, 0, 1, 1);
        const channels = [...canvas.getImageData(0, 0, 1, 1).data].map((c) => c / 255);
        const [r, g, b] = channels.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const [dark, bright] = [luminance(one), luminance(other)].sort();
      return (bright + 0.05) / (dark + 0.05);
    })"""
    pairs = [(text, on) for text in ("--text", "--muted", "--accent", "--rejected", "--warn") for on in ("--surface", "--raised", "--page")]
    for scheme in ("light", "dark"):
        with browser.page(city, scheme=scheme) as page:
            for text, on in [*pairs, ("--warn", "--warn-soft")]:
                found = page.evaluate(f"{ratio}('{text}', '{on}')")
                assert isinstance(found, float)
                assert found >= 4.5, (scheme, text, on, found)


def test_narrow_window_has_no_sideways_scrolling(browser: Browser, city: Path) -> None:
    with browser.page(city, width=400, height=800) as page:
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        page.resize(900, 800)
        page.wait("dotrReport.state.timeline.width > 700")
        assert_quiet(page, city)


def test_rules_are_sorted_by_a_column(browser: Browser, city: Path) -> None:
    counts = "[...document.querySelectorAll('#rules tbody tr')].map((row) => Number(row.cells[3].dataset.value))"
    with browser.page(city) as page:
        ready(page)
        for order in (True, False):
            page.evaluate("document.querySelectorAll('#rules .sort')[2].click()")
            found = page.evaluate(counts)
            assert found == sorted([29, 116, 12, 9, 2], reverse=order)
        assert str(page.evaluate("document.querySelector('#rules th[aria-sort]').innerText")).startswith("Events")


def test_everything_clickable_has_a_name(browser: Browser, city: Path) -> None:
    with browser.page(city) as page:
        ready(page)
        clickable = "[...document.querySelectorAll('button, a, input, select, [tabindex]')]"
        nameless = "filter((each) => !(each.ariaLabel || each.innerText || each.closest('label')))"
        assert page.evaluate(f"{clickable}.{nameless}.map((each) => each.outerHTML)") == []


def test_tables_are_there_without_javascript(browser: Browser, city: Path) -> None:
    with browser.page(city, script=False) as page:
        text = str(page.evaluate("document.body.innerText"))
        assert "The timeline needs JavaScript" in text
        assert "WarnNeighbours" in text
        assert "late" in text


def test_hostile_texts_are_not_interpreted(browser: Browser, project: Project) -> None:
    project.write("a.ndjson", json.dumps({"time": 1, "graph": f':s a :A ; :p "{HOSTILE}" .'}) + f"\n{HOSTILE}\n")
    rules = f'PREFIX : <http://e/>\nrule R "{HOSTILE}"\ndefine Out = [ dotr_id a :Out ; :x ?x ]\n'
    project.write("r.dotr", rules + f'from A = [ SELECT ?x WHERE {{ ?s a :A ; :p ?x FILTER(?x != "{HOSTILE}!") }} ]\nwith Out.?x = A.?x\n')
    project.change("c.yaml", "name: small", f"name: '{HOSTILE}'")
    assert project.dotr("report", "c.yaml", "-o", "report.html").code == 0
    path = project.folder / "report.html"
    with browser.page(path) as page:
        ready(page)
        page.evaluate("document.querySelector('#events button').click()")
        assert HOSTILE in detail(page)
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        assert page.evaluate("document.title") == f"{HOSTILE}: dotr report"
        assert_quiet(page, path)


def many_events(data: ReportData) -> ReportData:
    """The report with 50,000 events instead of its own, each at an instant of its own."""
    events = [
        ReportedEvent(time * 1_000_000, "R", "Hot", (("of", f":s{time % 37}"), ("v", str(time % 101))), (), f"urn:dotr:{time:032x}")
        for time in range(50_000)
    ]
    counts = {event.time: 1 for event in events}
    names = ((LaneKind.INPUT, "sensors"), (LaneKind.FACT, "Smoke"), (LaneKind.RULE, "R"), (LaneKind.DEAD_LETTER, ""))
    return replace(
        data,
        totals=replace(data.totals, events=50_000),
        first=0,
        last=events[-1].time,
        lanes=tuple([Lane(kind, name, counts) for kind, name in names]),
        events=tuple(events),
    )


def test_fifty_thousand_events_are_drawn_by_few_points(browser: Browser, tmp_path: Path) -> None:
    """The work of a frame is bounded by the pixels of the rows, and the document by the length of the list."""
    path = tmp_path / "report.html"
    path.write_text(page_text(many_events(write_report(str(ROOT / "configs/fire.yaml"), str(path)))), encoding="utf-8")
    with browser.page(path, width=WIDTH) as page:
        ready(page)
        assert page.evaluate("dotrReport.events.length") == 50_000
        nodes = number(page, "document.querySelectorAll('*').length")
        assert nodes < 1_000
        rows = number(page, "dotrReport.lanes.length")
        for action in ("zoom-in", "zoom-in", "pan-left", "pan-right", "zoom-out", "whole"):
            draws = number(page, "dotrReport.state.draws")
            page.evaluate(f"document.getElementById('{action}').click()")
            page.wait(f"dotrReport.state.draws > {draws}")
            page.frame()
            assert number(page, "dotrReport.state.draws") == draws + 1, "a movement is one frame"
            assert number(page, "dotrReport.state.drawn") <= rows * WIDTH
        page.evaluate("document.getElementById('later').click()")
        assert page.evaluate("document.querySelectorAll('#events tbody tr').length") == 20
        assert number(page, "document.querySelectorAll('*').length") <= nodes + 40
        page.click(*point(page, "R", 25_000))
        page.wait("document.getElementById('detail').dataset.event !== undefined")
        assert "Hot at 2" in detail(page)
        assert_quiet(page, path)


@pytest.mark.parametrize("unit", [Unit.SECOND, Unit.MILLISECOND, Unit.HOUR], ids=lambda unit: unit.written)
def test_times_are_written_as_the_pipeline_writes_them(browser: Browser, project: Project, unit: Unit) -> None:
    word = {Unit.SECOND: "s", Unit.MILLISECOND: "ms", Unit.HOUR: "h"}[unit]
    project.change("c.yaml", "output:", f"time: {{ unit: {word} }}\noutput:")
    times = [-7, 0, {Unit.SECOND: 1_704_067_200_000, Unit.MILLISECOND: 1_704_067_200_123, Unit.HOUR: 473_352}[unit]]
    project.write("a.ndjson", "".join(json.dumps({"time": time, "graph": ":a a :A ."}) + "\n" for time in times))
    assert project.dotr("report", "c.yaml", "-o", "report.html").code == 0
    with browser.page(project.folder / "report.html") as page:
        ready(page)
        shown = page.evaluate("dotrReport.events.map((event) => dotrReport.timeText(event.time))")
        assert shown == [str(time) for time in times]
        for micros in (1_500_000, 12_000_001, -1, 253_402_300_799_999_999, 7_200_000_000):
            assert page.evaluate(f"dotrReport.microsText({micros}n)") == str(format_time(micros, Clock(unit))), micros


def test_many_rules_are_shown_by_pages_of_rows(browser: Browser, project: Project) -> None:
    rule = "rule R{0} define E{0} = [ dotr_id a :E{0} ] from A [ FILTER(?v = {0}) ]\n"
    project.write(
        "r.dotr",
        "PREFIX : <http://e/>\nquery A = [ SELECT ?x ?v WHERE { ?e a :A ; :of ?x ; :v ?v } ]\n"
        + "".join(rule.format(number) for number in range(100)),
    )
    project.write("a.ndjson", "".join(f'{{"time": {time}, "graph": "[] a :A ; :of :s ; :v {time} ."}}\n' for time in range(100)))
    assert project.dotr("report", "c.yaml", "-o", "report.html").code == 0
    path = project.folder / "report.html"
    with browser.page(path) as page:
        ready(page)
        assert page.evaluate("document.getElementById('rows').textContent") == "Rows 1 to 24 of 102"
        page.evaluate("document.getElementById('rows-down').click()")
        assert page.evaluate("document.getElementById('rows').textContent") == "Rows 25 to 48 of 102"
        page.evaluate("document.querySelector('[data-rule=R99]').click()")
        assert page.evaluate("document.getElementById('rows').textContent") == "Rows 97 to 102 of 102"
        page.wait("document.querySelectorAll('#events tbody tr').length === 1")
        assert_quiet(page, path)
