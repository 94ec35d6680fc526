"""Report on a configuration, written as a file."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import chain, pairwise, zip_longest
from math import gcd
from pathlib import Path
from typing import Final

from dotr import __version__
from dotr.commands.explain.explanation import explanation
from dotr.commands.explain.text import svg, text
from dotr.commands.report import sections
from dotr.commands.report.collection import collect, event_name, reported_events
from dotr.commands.report.data import Lane, ProgramPicture, ProofStep, ReportData, ReportedEvent
from dotr.commands.why.questions import open_replays
from dotr.engine.replay import Replay
from dotr.errors.diagnostics import refuse
from dotr.errors.markup import Markup, element, join, source_hash
from dotr.errors.terminal import escape_controls
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.replay.firings import AnyFiring
from dotr.explanations.text.tree import WhyTree
from dotr.explanations.unit import is_answered, why_no_event
from dotr.explanations.why import WhyExplainer
from dotr.model import dataclass
from dotr.model.calendars import zone_of
from dotr.model.stream import Firing
from dotr.model.time import Micros
from dotr.runtimes.monitoring.totals import ReportActivity, ignore_activity
from dotr.runtimes.pipeline.config import Config, read_config
from dotr.runtimes.pipeline.inputs import present_files, read_inputs
from dotr.streams.formats.lines import STANDARD_INPUT
from dotr.streams.sinks.files import stores_no_data
from dotr.syntax.rendering import duration_text

# The page of a report: one HTML file that needs no network.
#
# Invariant: the Content-Security-Policy forbids all connections, and all scripts and styles except
# those of this package, which it lists by hash. Even unescaped text of the stream could not execute.


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
        f"default-src 'none'; script-src {source_hash(library)} {source_hash(script)}; "
        f"style-src {source_hash(library_style)} {source_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
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


# Explanations in a report: proofs of some events, and the reasons why some rules never fired.
#
# Cost: one replay for all proofs, and one for each rule that never fired; both are bounded in number.


_MOST_STEPS: Final = 400
"""Number of steps after which a proof is cut."""
_GAP: Final = re.compile(r"(?<=\S) {3,}")
"""Spaces that align places in a column; they are shortened, since the lines of the page wrap."""
_MOST_LINES: Final = 40
"""Number of lines after which the answer of a rule is cut."""


def reasons_not_fired(replay: Replay, rules: Iterable[str]) -> dict[str, list[str]]:
    """The lines of `dotr why-not` about each of some rules."""
    answers = {}
    for rule in rules:
        if not is_answered(replay.program, rule):
            continue
        lines = [_GAP.sub("   ", line) for line in why_no_event(replay, rule).lines()]
        answers[rule] = lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "…"]
    return answers


def proofs(replay: Replay, firings: Sequence[Firing], most: int) -> dict[int, ProofStep]:
    """Proofs of events by the number of the event: of each rule the first and the last ones.

    Args:
        replay: the replay that made the events.
        firings: the events, in the order of the output.
        most: number of proofs.
    """
    wanted: dict[tuple[object, ...], list[int]] = defaultdict(list)
    chosen = first_and_last([firing.rule for firing in firings], most)
    for number in chosen:
        wanted[_key(firings[number])].append(number)
    found: dict[int, ProofStep] = {}
    if not chosen:
        return found
    explainer = WhyExplainer(replay)
    recorder = explainer.recorder(sorted({firings[number].rule for number in chosen}))
    for together in recorder.run(max(firings[number].time for number in chosen)):
        for named in together:
            numbers = next((wanted.pop(key) for key in _keys(named) if key in wanted), ())
            if numbers:
                found.update(dict.fromkeys(numbers, proof_step(explainer.tree(recorder, named))))
        if not wanted:
            break
    return found


def _key(firing: Firing) -> tuple[object, ...]:
    """The identity of a firing: its fresh name, or time and attributes if its rule makes no
    name."""
    name = event_name(firing)
    return (firing.rule, f"<{name}>") if name else (firing.rule, firing.time, firing.attributes)


def _keys(firing: AnyFiring) -> list[tuple[object, ...]]:
    """The keys by which a firing may be looked up (`_key`)."""
    rule = firing.unit_name
    return [*((rule, name) for name in firing.names), (rule, firing.time, tuple(sorted(firing.attributes.items())))]


def first_and_last(rules: Sequence[str], most: int) -> list[int]:
    """Numbers of some events, given the rule of each: in turns of all rules, from both ends.

    >>> first_and_last(["A", "A", "A", "A", "B", "C"], 5)
    [0, 1, 3, 4, 5]
    """
    by_rule: dict[str, list[int]] = defaultdict(list)
    for number, rule in enumerate(rules):
        by_rule[rule].append(number)
    turns = zip_longest(*map(_from_both_ends, by_rule.values()))
    return sorted([number for number in chain.from_iterable(turns) if number is not None][:most])


def _from_both_ends(numbers: Sequence[int]) -> list[int]:
    """
    >>> _from_both_ends([1, 2, 3, 4, 5])
    [1, 5, 2, 4, 3]
    """
    half = -(-len(numbers) // 2)
    turns = zip_longest(numbers[:half], numbers[: half - 1 : -1])
    return [number for turn in turns for number in turn if number is not None]


def proof_step(tree: WhyTree) -> ProofStep:
    """A tree of reasons as a proof of the page, cut after a number of steps."""
    order = [tree]
    for node in order:  # grows: all nodes, level by level
        order += node.below(1)
        if len(order) > _MOST_STEPS:
            break
    kept = {id(node) for node in order[:_MOST_STEPS]}
    steps: dict[int, ProofStep] = {}
    for node in reversed(order[:_MOST_STEPS]):
        if id(node) not in steps:
            below = node.below(1)
            premises = tuple([steps[id(child)] for child in below if id(child) in kept and id(child) in steps])
            cut = () if len(premises) == len(below) else (ProofStep("…", ""),)
            steps[id(node)] = ProofStep(node.text, node.place, (*premises, *cut))
    return steps[id(tree)]


def numbered(found: Mapping[int, ProofStep]) -> tuple[tuple[ProofStep, ...], dict[int, int]]:
    """The proofs in the order of their events, and the number of the proof of each event."""
    order = sorted(found)
    return tuple([found[number] for number in order]), {number: k for k, number in enumerate(order)}


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """Bounds of a report: the numbers of events that it lists, of proofs, and of rules that never
    fired for which it gives the reason."""

    events: int = 50_000
    proofs: int = 40
    unfired_rules: int = 10


def write_report(
    path: str,
    output: str,
    options: Sequence[str] = (),
    limits: ReportLimits | None = None,
    report_activity: ReportActivity = ignore_activity,
) -> ReportData:
    """Replay the inputs of a configuration and write the report.

    Args:
        path: the configuration.
        output: the file to write. An older report there is replaced.
        options: values that change the configuration, as those of `--set`.
        limits: bounds of the page's content.
        report_activity: called with each activity that begins.

    Raises:
        Refused: the configuration is wrong, or the file is there and no report, or cannot be
            written.
    """
    check_target(output)
    config = read_config(path, options)
    (replay,) = open_replays(path, options=options)
    data = report_data(replay, config, tuple(options), limits or ReportLimits(), report_activity)
    written = page(data)
    try:
        target = Path(output)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(written, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise refuse("C304", f"cannot write {output}: {reason}", None, "Choose a path that can be written.") from None
    return data


def check_target(output: str) -> None:
    """Check that a path is free or an older report; raises `Refused` (C306)."""
    target = Path(output)
    if stores_no_data(output):
        return
    if target.is_dir():
        raise refuse("C306", f"{output} is a folder", None, "Name a file, such as report.html.")
    try:
        with target.open(encoding="utf-8", errors="replace") as file:
            beginning = file.read(1000)
    except FileNotFoundError:
        return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise refuse("C304", f"cannot write {output}: {reason}", None, "Choose a path that can be written.") from None
    if beginning and not is_report(beginning):
        raise refuse("C306", f"{output} is there already, and is no report", None, "Remove it, or name another file.")


def report_data(
    replay: Replay, config: Config, options: tuple[str, ...], limits: ReportLimits, report_activity: ReportActivity = ignore_activity
) -> ReportData:
    """The content of the report on a configuration."""
    report_activity("replaying the inputs")
    collected = collect(replay, _input_names(config), events=limits.events)
    explained = explanation(replay.name, replay.program)
    unfired = [rule.name for rule in collected.rules if not rule.events][: limits.unfired_rules]
    if unfired:
        report_activity("asking why rules never fired")
    answers = reasons_not_fired(replay, unfired)
    if limits.proofs and collected.firings:
        report_activity("proving events")
    steps, proof_of = numbered(proofs(replay, collected.firings, limits.proofs))
    events = reported_events(collected.firings, replay.prefixes, replay.program.internal)
    return ReportData(
        config.settings.name,
        replay.name,
        options,
        __version__,
        replay.clock,
        collected.totals,
        collected.first,
        collected.last,
        collected.bin_width,
        collected.lanes,
        tuple([event._replace(proof=proof_of.get(number)) for number, event in enumerate(events)]),
        steps,
        tuple(
            [replace(rule, reason_not_fired="\n".join([rule.reason_not_fired, *answers.get(rule.name, ())])) for rule in collected.rules]
        ),
        collected.rejected,
        collected.inputs,
        ProgramPicture(svg(explained), "\n".join(text(explained))),
    )


def _input_names(config: Config) -> dict[str, str]:
    """The name of the input of each file, and of each topic that is named."""
    inputs = read_inputs(config, [])
    files = [(file.path, file.input) for file in present_files(inputs)]
    files += [(name, each.name) for each in inputs.topics for name in (*each.names, *(topic for topic, _ in each.assigned))]
    return dict(files + [(STANDARD_INPUT, each.like.input) for each in inputs.growing if each.standard])
