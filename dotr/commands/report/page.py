"""The page of a report: one HTML file that needs no network.

Invariant: the Content-Security-Policy forbids all connections, and all scripts and styles except
those of this package, which it lists by hash. Even unescaped text of the stream could not execute.
"""

from __future__ import annotations

import json
import shlex
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise
from math import gcd
from typing import Final

from dotr.commands.report import sections
from dotr.commands.report.data import Lane, ReportData, ReportedEvent
from dotr.commands.report.markup import Markup, element, join
from dotr.errors.terminal import escape_controls
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.calendars import zone_of
from dotr.model.time import Micros
from dotr.syntax.rendering import duration_text


def script_json(value: object) -> Markup:
    r"""JSON for a script element, which no text in it can end.

    >>> script_json(["</script><!--", "&"])
    '["\\u003c/script>\\u003c!--","\\u0026"]'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


class _Texts:
    """Texts by number, each stored once, with escapes for control characters."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        return list(map(escape_controls, self._numbers))


def _zone(name: str, first: Micros, last: Micros) -> dict[str, object]:
    """The name of the zone in which times are shown, and its offsets in minutes from times in µs on;
    nothing for UTC.

    >>> _zone("Europe/Lisbon", 1_767_225_600_000_000, 1_783_000_000_000_000)
    {'zone': 'Europe/Lisbon', 'offsets': [[1767225600000000, 0], [1774746000000000, 60]]}
    """
    if not name or (zone := zone_of(name)).offsets == (0,):
        return {}
    begins = [first, *(begin for begin in zone.begins if first < begin <= last)]
    return {"zone": name, "offsets": [[begin, zone.minutes(begin)] for begin in begins]}


def embedded(data: ReportData) -> Markup:
    """The JSON that the script of the page reads."""
    used = sorted({number for lane in data.lanes for number in lane.counts})
    starts = [number * data.bin_width for number in used]
    position = {number: k for k, number in enumerate(used)}
    base = min([*starts[:1], *(event.time for event in data.events[:1])], default=0)
    first, last = (base if time is None else time for time in (data.first, data.last))
    times = [first, last, *starts, *(event.time for event in data.events)]
    grain = gcd(data.bin_width if data.bin_width > 1 else 0, *(time - base for time in times)) or 1
    texts = _Texts()
    rules = [rule.name for rule in data.rules]
    return script_json(
        {
            "clock": {"unit": data.clock.unit.value, "dated": data.clock.dated, **_zone(data.clock.zone, first, last)},
            "unit": duration_text(data.clock.unit.value).removeprefix("1 "),
            "base": str(base),
            "grain": grain,
            "first": (first - base) // grain,
            "last": (last - base) // grain,
            "width": max(1, data.bin_width // grain),
            "starts": _distances([(start - base) // grain for start in starts]),
            "lanes": [_lane(lane, position) for lane in data.lanes],
            "rules": rules,
            "events": _events(data.events, rules, base, grain, texts),
            "total": data.totals.events,
            "texts": texts.all(),
            "config": escape_controls(shlex.quote(data.config)),
            "changes": escape_controls(data.changes),
        }
    )


def _lane(lane: Lane, position: dict[int, int]) -> dict[str, object]:
    numbers = sorted(lane.counts)
    return {
        "kind": lane.kind.value,
        "name": escape_controls(lane.name),
        "total": lane.total,
        "at": _distances([position[number] for number in numbers]),
        "count": [lane.counts[number] for number in numbers],
    }


def _distances(numbers: Sequence[int]) -> list[int]:
    """
    >>> _distances([5, 7, 11]), _distances([])
    ([5, 2, 4], [])
    """
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]


def _events(events: Iterable[ReportedEvent], rules: list[str], base: Micros, grain: Micros, texts: _Texts) -> list[list[object]]:
    """Events as lists: time, rule, type, name, proof (-1: none), attributes, triples."""
    numbers = {name: number for number, name in enumerate(rules)}
    return [
        [
            (event.time - base) // grain,
            numbers[event.rule],
            texts(event.type),
            texts(event.name),
            -1 if event.proof is None else event.proof,
            [texts(text) for attribute in event.attributes for text in attribute],
            [texts(text) for triple in event.graph for text in triple],
        ]
        for event in events
    ]


# --- the page ---

UPLOT_VERSION: Final = "1.6.32"
"""Release of uPlot in the folder `uplot`: its minified script, its style sheet and its licence, as
the npm registry has them."""
_SCRIPTS: Final = ("data", "axes", "charts", "details", "controls")
_STYLES: Final = ("colours", "layout", "timeline", "tables", "media")
_MARK: Final = "dotr report"
"""Content of the page's `generator`, by which a report is recognised."""


def is_report(beginning: str) -> bool:
    """True where a file that begins like this is a report.

    >>> is_report('<!DOCTYPE html>\\n<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="dotr report 1.0">')
    True
    """
    return f'<meta name="generator" content="{_MARK} ' in beginning


def page(data: ReportData) -> str:
    """The page as HTML."""
    scripts = "\n".join(_asset(f"scripts/{name}.js") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{scripts}}})();\n'
    style = "\n".join(_asset(f"styles/{name}.css") for name in _STYLES)
    library, library_style = _asset("uplot/uPlot.iife.min.js"), _asset("uplot/uPlot.min.css")
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; style-src {_hash(library_style)} {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="generator", content=f"{_MARK} {data.version}"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", f"{data.name}: dotr report"),
        element("style", Markup(library_style)),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        _bar(data),
        element("main", *_content(data), id="content"),
        _footer(data),
        element("script", embedded(data), type="application/json", id="data"),
        element("script", Markup(library)),
        element("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return files("dotr.commands.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _bar(data: ReportData) -> Markup:
    parts = ("Timeline", "Rules", "Dead letters", "Inputs", "Proofs", "Program")
    links = [element("a", part, href=f"#{part.lower().replace(' ', '-')}") for part in parts]
    theme = element("button", "Theme: system", type="button", id="theme", title="Light, dark, or as the system says")
    return element("div", element("strong", data.name), element("nav", *links, aria_label="Sections"), theme, class_="bar")


def _content(data: ReportData) -> tuple[Markup, ...]:
    return (
        element("section", element("h1", data.name), _subtitle(data), sections.tiles(data), class_="plain", aria_label="Summary"),
        _section("Timeline", _timeline(data)),
        _section("Rules", sections.rules(data)),
        _section("Dead letters", sections.dead_letters(data)),
        _section("Inputs", sections.inputs(data)),
        _section("Proofs", sections.proofs(data)),
        _section("Program", sections.program(data)),
    )


def _section(title: str, content: Markup) -> Markup:
    name = title.lower().replace(" ", "-")
    return element("section", element("h2", title, id=f"{name}-title"), content, id=name, aria_labelledby=f"{name}-title")


def _subtitle(data: ReportData) -> Markup:
    between = (
        "no instant"
        if data.first is None or data.last is None
        else f"{format_time(data.first, data.clock)} to {format_time(data.last, data.clock)}"
    )
    return element(
        "p", "A replay of ", element("code", f"{data.config} {data.changes}".strip()), f", {between}. dotr {data.version}.", class_="quiet"
    )


def _button(text: str, name: str, title: str) -> Markup:
    return element("button", text, type="button", id=name, title=title, aria_label=title)


def _timeline(data: ReportData) -> Markup:
    if data.first is None:
        return element("p", "There is nothing to show: no input brought an element that was taken, and no rule fired.")
    tools = element(
        "div",
        _button("◀", "pan-left", "Earlier"),
        _button("▶", "pan-right", "Later"),
        _button("+", "zoom-in", "Zoom in"),
        _button("−", "zoom-out", "Zoom out"),
        element("button", "Whole stream", type="button", id="whole"),
        _button("▲", "rows-up", "Rows above"),
        _button("▼", "rows-down", "Rows below"),
        element("span", "", id="rows", class_="quiet"),
        element("span", "", id="range", class_="range", aria_live="polite"),
        class_="tools",
        role="toolbar",
        aria_label="Timeline",
    )
    kinds = (("input", "elements, by input"), ("fact", "facts, by query"), ("rule", "events, by rule"), ("rejected", "dead letters"))
    legend = element("ul", *[element("li", text, class_=kind) for kind, text in kinds], class_="legend")
    charts = element(
        "div",
        element("div", id="overview-chart", class_="chart", role="img", aria_label="Elements, facts and events over the whole stream"),
        element(
            "div",
            element("div", id="tip", class_="tip hidden"),
            id="timeline-chart",
            class_="chart",
            tabindex="0",
            role="group",
            aria_label="Timeline. Arrow keys move it, plus and minus zoom, 0 shows all of it. The table below lists the events in view.",
        ),
        element(
            "p",
            "Drag to zoom, double-click for the whole stream, Ctrl and wheel to zoom, Shift and wheel to move. Click a point to open it.",
            class_="caption",
        ),
        class_="charts",
        id="charts",
    )
    detail = element(
        "aside",
        element("h3", "Nothing chosen"),
        element(
            "p",
            "Click a point, or an event of the list: its attributes, its graph and its proof open here.",
            class_="quiet",
        ),
        id="detail",
        aria_live="polite",
        aria_label="Details",
    )
    without = element("noscript", element("p", "The timeline needs JavaScript. All tables below are complete without it."))
    return join(without, _kept(data), tools, legend, element("div", charts, detail, _event_list(), class_="split"))


def _kept(data: ReportData) -> Markup:
    notes = []
    if data.bin_width > 1:
        notes.append(f"A point stands for {duration_text(data.bin_width)} of the stream.")
    if len(data.events) < data.totals.events:
        notes.append(
            f"Of {data.totals.events:,} events {len(data.events):,} are in this page, the first and the last ones; the timeline counts all."
        )
    return element("p", " ".join(notes)) if notes else Markup("")


def _event_list() -> Markup:
    tools = element(
        "div",
        element("label", "Rule ", element("select", element("option", "all", value=""), id="rule-filter")),
        element("label", "Attributes contain ", element("input", type="search", id="text-filter", size="16")),
        _button("◀", "earlier", "Earlier events of the list"),
        _button("▶", "later", "Later events of the list"),
        element("span", "", id="list-range", class_="range", aria_live="polite"),
        class_="tools",
    )
    heads = [element("th", name, scope="col") for name in ("Time", "Rule", "Attributes", "Proof")]
    table = element("table", element("thead", element("tr", *heads)), element("tbody"), id="events", class_="hidden")
    empty = element("p", "No event in view.", id="no-events", class_="quiet")
    return element("div", element("h3", "Events in view"), tools, element("div", table, class_="scroll"), empty, class_="list")


def _footer(data: ReportData) -> Markup:
    licence = element(
        "details",
        element("summary", f"Charts: uPlot {UPLOT_VERSION}, MIT licence"),
        element("pre", _asset("uplot/LICENSE")),
    )
    return element(
        "footer", element("p", f"Made by dotr {data.version}. This file holds all that it shows and connects to nothing."), licence
    )
