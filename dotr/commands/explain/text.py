"""`dotr explain`: execution plan of the rules of a rule file, a configuration or a rule test."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

from dotr.commands.explain.explanation import ClauseExplanation, Explanation, QueryExplanation, RuleExplanation, explanation
from dotr.commands.test.files import is_test, read_file
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused, refuse
from dotr.explanations.descriptions import DrawnUnit
from dotr.instant.datalog.background.compiled_cache import CachePolicy
from dotr.languages.programs import compile_program
from dotr.languages.registry import RuleLanguage
from dotr.model import dataclass
from dotr.model.units import FedGraphs
from dotr.runtimes.pipeline.config import read_config, read_document
from dotr.syntax.yaml import read_tree

# Drawing of an explanation as mermaid or SVG: queries and streams on the left, then rules and
# other units by layer and their events.
#
# Idea of the SVG: all text is inside boxes and long lines wrap, so texts never overlap. An arrow ends
# at the line of its clause; where an arrow crosses a column, the column has a gap for it.


_CHARACTER: Final = 6.7
_LINE: Final = 16
_PAD: Final = 10
_GAP: Final = 28
_PASS: Final = 12
_BETWEEN: Final = 90
_WIDEST: Final = 72
"""Number of characters at which lines wrap."""


def mermaid(explained: Explanation) -> str:
    """Flowchart in mermaid's language."""
    return "\n".join(["flowchart LR", *_mermaid(explained)])


def _mermaid(explained: Explanation) -> Iterator[str]:
    for query in explained.queries:
        yield f"  q{query.number}[{_quoted(f'query {query.number}', *query.labels, query.how)}]"
    units, events, streams = explained.drawn, _events(explained), _streams(explained)
    for number, stream in enumerate(streams):
        yield f"  s{number}[/{_quoted(f'stream {stream.name}')}/]"
    for number, unit in enumerate(units):
        yield f"  u{number}[[{_quoted(*(line for line, _ in unit.lines))}]]"
    for number, rule in enumerate(explained.rules):
        yield f"  r{number}[[{_quoted(rule.name, *_rest(rule))}]]"
    for number, event in enumerate(events):
        yield f"  e{number}([{_quoted(event)}])"
    if any(step.source is None for rule in explained.rules for step in rule.steps):
        yield f"  clock(({_quoted('clock')}))"
    for number, rule in enumerate(explained.rules):
        for step in rule.steps:
            match step.source:
                case None:
                    source = "clock"
                case int():
                    source = f"q{step.source}"
                case _:
                    source = f"e{events.index(step.source)}"
            yield f"  {source} -- {_quoted(step.written(), *step.constraints)} --> r{number}"
        yield f"  r{number} --> e{events.index(rule.event)}"
    for number, unit in enumerate(units):
        for line, stream_read in unit.lines:
            if stream_read is not None:
                start = f"s{streams.index(stream_read)}" if isinstance(stream_read, FedGraphs) else f"e{events.index(stream_read.label)}"
                yield f"  {start} -- {_quoted(line)} --> u{number}"
        for event in unit.events:
            yield f"  u{number} --> e{events.index(event)}"


def _events(explained: Explanation) -> list[str]:
    """The labels of all events, those of rules first."""
    of_units = (event for unit in explained.drawn for event in unit.events)
    return list(dict.fromkeys([*(rule.event for rule in explained.rules), *of_units]))


def _streams(explained: Explanation) -> list[FedGraphs]:
    """The streams of inputs that units read."""
    return list(dict.fromkeys(source for unit in explained.drawn for _, source in unit.lines if isinstance(source, FedGraphs)))


def _quoted(*lines: str) -> str:
    return (
        '"'
        + "<br/>".join(line.replace("#", "#35;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;") for line in lines)
        + '"'
    )


def _rest(rule: RuleExplanation) -> Iterator[str]:
    """Lines of a rule's box after its name and its clauses."""
    if rule.condition:
        yield f"if {rule.condition}"
    for step in rule.steps:
        if step.answer:
            yield f"{step.selection} {step.label}: {step.answer}"
    for step in rule.steps:
        if step.consumed:
            yield f"consuming {step.label}"
    if rule.once:
        yield rule.once
    if rule.stages:
        for number, stage in enumerate(rule.stages, 1):
            yield f"stage {number}: {', '.join(stage.labels)} {stage.partition}; layer {stage.placement}"
    else:
        yield f"layer {rule.layer}; {rule.partition}"
    if rule.recursion:
        yield f"recursion: {rule.recursion}"
    for step in rule.steps:
        if step.state:
            yield f"{step.label}: {step.state}"


# --- SVG ---


@dataclass(slots=True)
class _Box:
    """Frame with lines of text; `ports` are the numbers of the lines at which arrows end."""

    lines: list[str]
    round: float = 4.0
    ports: list[int] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    @property
    def needed(self) -> float:
        return max(map(len, self.lines)) * _CHARACTER + 2 * _PAD

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PAD

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    def line(self, number: int) -> float:
        """Vertical position of a line."""
        return self.y + _PAD + 7 + number * _LINE

    def write(self, text: str, indent: str = "") -> None:
        self.lines += textwrap.wrap(text, _WIDEST, subsequent_indent=indent + "  ", initial_indent=indent) or [""]


@dataclass(slots=True)
class _Gap:
    """Gap in a column for a crossing arrow."""

    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = _PASS
    needed: float = 0.0

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(slots=True)
class _Arrow:
    """Arrow from a box to a line of another (None: to its middle), through gaps."""

    start: _Box
    end: _Box
    line: int | None
    gaps: list[_Gap]


def svg(explained: Explanation) -> str:
    """SVG picture: a column of queries and streams, then for each layer a column of rules and other
    units, and one of their events."""
    columns, arrows = _columns(explained)
    x, bottom = float(_GAP), 0.0
    for column in columns:
        width = max(box.needed for box in column)
        y = float(_GAP)
        for box in column:
            box.x, box.y, box.width = x, y, width
            y += box.height + (_PASS if isinstance(box, _Gap) else _GAP)
        x += width + _BETWEEN
        bottom = max(bottom, y)
    boxes = [line for column in columns for box in column if isinstance(box, _Box) for line in _drawn(box)]
    right = x - _BETWEEN + _GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0f}" height="{bottom:.0f}" viewBox="0 0 {right:.0f} {bottom:.0f}" '
            'font-family="monospace" font-size="11">',
            f"<title>{escape(explained.title)}</title>",
            '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8z"/></marker></defs>',
            '<rect width="100%" height="100%" fill="white"/>',
            *map(_path, arrows),
            *boxes,
            "</svg>",
        ]
    )


def _columns(explained: Explanation) -> tuple[list[list[_Box | _Gap]], list[_Arrow]]:
    """Columns of boxes and gaps from left to right, ordered to reduce crossings, and the arrows."""
    units = explained.drawn
    queries = {query.number: _query_box(query.number, query.labels, query.how, query.triggers) for query in explained.queries}
    events = {event: _Box([event], round=18.0) for event in _events(explained)}
    streams = {stream: _Box([f"stream {stream.name}"], round=0.0) for stream in _streams(explained)}
    clock = _Box(["clock"], round=18.0)
    timed = any(step.source is None for rule in explained.rules for step in rule.steps)
    rules = [_rule_box(rule) for rule in explained.rules]
    boxes = [_unit_box(unit) for unit in units]
    last = {rule.event: rule.layer for rule in explained.rules} | {event: unit.layer for unit in units for event in unit.events}
    columns: list[list[_Box]] = [[*queries.values(), *([clock] if timed else []), *streams.values()]]
    for layer in sorted({*(rule.layer for rule in explained.rules), *(unit.layer for unit in units)}):
        of_rules = [box for box, rule in zip(rules, explained.rules, strict=True) if rule.layer == layer]
        columns.append([*of_rules, *(box for box, unit in zip(boxes, units, strict=True) if unit.layer == layer)])
        columns.append([box for event, box in events.items() if last[event] == layer])
    columns = [column for column in columns if column]
    column_of = {id(box): number for number, column in enumerate(columns) for box in column}
    filled: list[list[_Box | _Gap]] = [list(column) for column in columns]
    sources: dict[int, list[_Box | _Gap]] = {}
    arrows: list[_Arrow] = []

    def connect(start: _Box, end: _Box, line: int | None) -> None:
        gaps = [_Gap() for _ in range(column_of[id(start)] + 1, column_of[id(end)])]
        nearest: _Box | _Gap = start
        for number, gap in enumerate(gaps, column_of[id(start)] + 1):
            filled[number].append(gap)
            sources[id(gap)] = [nearest]
            nearest = gap
        if column_of[id(start)] < column_of[id(end)]:
            sources.setdefault(id(end), []).append(nearest)
        arrows.append(_Arrow(start, end, line, gaps))

    for box, rule in zip(rules, explained.rules, strict=True):
        for step, line in zip(rule.steps, box.ports, strict=True):
            connect(
                clock if step.source is None else queries[step.source] if isinstance(step.source, int) else events[step.source], box, line
            )
        connect(box, events[rule.event], None)
    for box, unit in zip(boxes, units, strict=True):
        sources_read = [source for _, source in unit.lines if source is not None]
        for source, line in zip(sources_read, box.ports, strict=True):
            connect(streams[source] if isinstance(source, FedGraphs) else events[source.label], box, line)
        for event in unit.events:
            connect(box, events[event], None)
    for before, column in pairwise(filled):
        _order(column, before, sources)
    return filled, arrows


def _order(column: list[_Box | _Gap], before: Sequence[_Box | _Gap], sources: dict[int, list[_Box | _Gap]]) -> None:
    """Order a column by the mean position of its boxes' sources (barycentre; Sugiyama, Tagawa, Toda
    1981)."""
    positions = {id(box): number for number, box in enumerate(before)}

    def centre(box: _Box | _Gap) -> float:
        known = [positions[id(source)] for source in sources.get(id(box), ()) if id(source) in positions]
        return sum(known) / len(known) if known else len(before) / 2

    column.sort(key=centre)


def _query_box(number: int, labels: Sequence[str], how: str, triggers: Sequence[str]) -> _Box:
    box = _Box([])
    box.write(f"query {number}: {', '.join(labels)}")
    box.write(how)
    for kind in triggers:
        box.write(kind)
    return box


def _rule_box(rule: RuleExplanation) -> _Box:
    box = _Box([rule.name])
    for step in rule.steps:
        box.ports.append(len(box.lines))
        box.write(step.written())
        for constraint in step.constraints:
            box.write(constraint, "    ")
    for text in _rest(rule):
        box.write(text)
    return box


def _unit_box(unit: DrawnUnit) -> _Box:
    box = _Box([])
    for number, (line, source) in enumerate(unit.lines):
        if source is not None:
            box.ports.append(len(box.lines))
        box.write(line, "    " if number and source is None else "")
    return box


def _path(arrow: _Arrow) -> str:
    """SVG path of an arrow through its gaps; to an earlier column from left side to right side."""
    start, end = arrow.start, arrow.end
    y = end.middle if arrow.line is None else end.line(arrow.line)
    back = end.x < start.x
    x1, x2 = (start.x, end.x + end.width) if back else (start.x + start.width, end.x)
    first = start.line(0) if start.ports else start.middle
    points = [(x1, first), *(point for gap in arrow.gaps for point in ((gap.x, gap.middle), (gap.x + gap.width, gap.middle))), (x2, y)]
    path = f"M{x1:.0f} {first:.0f}"
    for number, ((xa, ya), (xb, yb)) in enumerate(pairwise(points)):
        middle = (xa + xb) / 2
        path += f"L{xb:.0f} {yb:.0f}" if number % 2 else f"C{middle:.0f} {ya:.0f} {middle:.0f} {yb:.0f} {xb:.0f} {yb:.0f}"
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#end)"/>'


def _drawn(box: _Box) -> Iterator[str]:
    frame = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
    yield f'<rect {frame} rx="{box.round:.0f}" fill="#f4f6f8" stroke="#333"/>'
    for number, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if number == 0 else ""
        yield (
            f'<text x="{box.x + _PAD:.0f}" y="{box.y + _PAD + 11 + number * _LINE:.0f}"{weight} '
            f'xml:space="preserve">{escape(line, quote=False)}</text>'
        )


def explain(path: str, form: str = "text") -> str:
    """Explanation of a file's program, cut as on Spark; `form` is `text`, `mermaid` or `svg`.

    Raises `Refused` with the program's problems."""
    alone = ", without the knowledge that a configuration names" if RuleLanguage.of(path) is not None else ""
    explained = explanation(path + alone, _program(path))
    match form:
        case "mermaid":
            return mermaid(explained)
        case "svg":
            return svg(explained)
        case _:
            return "\n".join(text(explained))


def _program(path: str) -> CompiledProgram:
    match Path(path).suffix:
        case _ if RuleLanguage.of(path) is not None:
            return compile_program(ProgramSpec(rules=(read_document(path),), cut=True), CachePolicy.default())
        case ".yaml" | ".yml":
            if not is_test(read_tree(read_document(path)).data):
                config = read_config(path)
                return compile_program(replace(config.program(), cut=True), config.cache_policy())
            test, problems = read_file(path)
            if problems:
                raise Refused(problems)
            return compile_program(replace(test.spec, cut=True), CachePolicy.default())
        case _:
            read_document(path)
            raise refuse(
                "C303",
                f"{path} is nothing that dotr explains",
                None,
                "It explains rule files (.dotr, .rspql, .lars, .epsparql) and configurations (.yaml).",
            )


def text(explained: Explanation) -> Iterator[str]:
    """Lines of an explanation."""
    yield explained.title
    yield f"Background: {explained.knowledge}."
    if explained.rules and not explained.stateful:
        yield "No state outlives an instant: on Spark the tasks that read the input run all rules, with no stateful operator."
    for query in explained.queries:
        yield ""
        yield from _query(query)
    if explained.unread:
        yield ""
        yield f"Read by no rule, evaluated in rule tests only: {', '.join(explained.unread)}"
    for unit in explained.units:
        yield ""
        yield from unit.lines()
    for rule in explained.rules:
        yield ""
        yield from _rule(rule)


def _query(query: QueryExplanation) -> Iterator[str]:
    shared = "" if len(query.rules) == 1 else ", evaluated once for all of them"
    yield f"Query {query.number}: {', '.join(query.labels)} of {', '.join(query.rules)}{shared}"
    yield f"  asked      {query.how}"
    if query.triggers:
        yield f"  wakes on   {', '.join(query.triggers)}"
    if query.datalog:
        yield f"  Datalog    {', '.join(query.datalog)}"
    if query.static:
        yield f"  static     {query.static}"


def _rule(rule: RuleExplanation) -> Iterator[str]:
    yield f"Rule {rule.name} -> {'internal ' if rule.internal else ''}{rule.event}" + (
        f': "{rule.documentation}"' if rule.documentation else ""
    )
    for step in rule.steps:
        yield f"  {step.written(_source(step))}"
        for constraint in step.constraints:
            yield f"    where    {constraint}"
        if step.answer:
            yield f"    {step.answer}"
    if rule.condition:
        yield f"  if         {rule.condition}"
    for assignment in rule.assignments:
        yield f"  with       {assignment}"
    for step in rule.steps:
        if step.consumed:
            yield f"  consuming  {step.label}: {step.consumed}"
    if rule.once:
        yield f"  {'once':<10} {rule.once.removeprefix('once ')}"
    if rule.stages:
        yield f"  partition  in {len(rule.stages)} stages, from each of which bindings go to the next"
        for number, stage in enumerate(rule.stages, 1):
            yield f"  stage {number:<4} {', '.join(stage.labels)} {stage.partition}"
            yield f"    layer    {stage.placement}"
    else:
        yield f"  partition  {rule.partition}"
        yield f"  layer      {rule.placement}"
    if rule.recursion:
        yield f"  recursion  {rule.recursion}"
    if rule.same_template:
        differ = "differs" if len(rule.same_template) == 1 else "differ"
        yield f"  runs       as one with {', '.join(rule.same_template)}, which {differ} in constants alone"
    stateful_steps = [step for step in rule.steps if step.state]
    for step in stateful_steps:
        yield f"  state      {step.label}: {step.state}"
    if rule.once:
        yield f"  state      {rule.event}: one time for each key, kept for {rule.once.removeprefix('once in ').partition(' per ')[0]}"
    elif not stateful_steps:
        yield "  state      none"


def _source(step: ClauseExplanation) -> str:
    match step.source:
        case None:
            return "(the clock)"
        case int():
            return f"(query {step.source})"
        case _:
            return f"(event {step.source})"
