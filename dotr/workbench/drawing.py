"""An explanation drawn: queries to the left, rules in the order of their layers, the events that they make; as mermaid and as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

from dotr.workbench.explanation import Explained, Explanation, Step

_CHARACTER: Final = 6.7
_LINE: Final = 16
_PAD: Final = 10
_GAP: Final = 28
_BETWEEN: Final = 150


def mermaid(found: Explanation) -> str:
    """A flowchart in mermaid's language."""
    return "\n".join(["flowchart LR", *_mermaid(found)])


def _mermaid(found: Explanation) -> Iterator[str]:
    for asked in found.queries:
        yield f"  q{asked.number}[{_quoted(f'query {asked.number}', *asked.labels, asked.how)}]"
    events = list(dict.fromkeys(rule.event for rule in found.rules))
    for number, rule in enumerate(found.rules):
        yield f"  r{number}[[{_quoted(*_lines(rule))}]]"
    for number, event in enumerate(events):
        yield f"  e{number}([{_quoted(event)}])"
    for number, rule in enumerate(found.rules):
        for step in rule.steps:
            source = f"q{step.source}" if isinstance(step.source, int) else f"e{events.index(step.source)}"
            yield f"  {source} -- {_quoted(*_edge(step))} --> r{number}"
        yield f"  r{number} --> e{events.index(rule.event)}"


def _quoted(*lines: str) -> str:
    return (
        '"'
        + "<br/>".join(line.replace("#", "#35;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;") for line in lines)
        + '"'
    )


def _lines(rule: Explained) -> tuple[str, ...]:
    """What a rule's box says."""
    return (
        rule.name,
        *([f"if {rule.condition}"] if rule.condition else []),
        *([f"consuming {', '.join(rule.consuming)}"] if rule.consuming else []),
        f"layer {rule.layer}, {rule.partition}",
        *(f"{step.label}: {step.state}" for step in rule.steps[1:]),
    )


def _edge(step: Step) -> tuple[str, ...]:
    return (f"{step.selection} {step.label} {step.scope}".rstrip(), *step.constraints)


@dataclass(slots=True)
class _Box:
    lines: tuple[str, ...]
    x: float = 0.0
    y: float = 0.0
    round: float = 4.0

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * _CHARACTER + 2 * _PAD

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PAD


def svg(found: Explanation) -> str:
    """The same as a picture: one column for the queries, then for each layer one of its rules and one of the events that they make."""
    events = {event: _Box((event,), round=18.0) for event in dict.fromkeys(rule.event for rule in found.rules)}
    queries = {q.number: _Box((f"query {q.number}: {', '.join(q.labels)}", q.how, *q.wakes)) for q in found.queries}
    rules = [
        _Box((*_lines(rule), *(f"{n}. {line}" for n, step in enumerate(rule.steps, 1) for line in _edge(step)))) for rule in found.rules
    ]
    columns: list[list[_Box]] = [list(queries.values())]
    for layer in sorted({rule.layer for rule in found.rules}):
        columns.append([box for box, rule in zip(rules, found.rules, strict=True) if rule.layer == layer])
        last = {rule.event: rule.layer for rule in found.rules}
        columns.append([box for event, box in events.items() if last[event] == layer])
    x, height = float(_GAP), 0.0
    for column in filter(None, columns):
        y = float(_GAP)
        for box in column:
            box.x, box.y = x, y
            y += box.height + _GAP
        x += max(box.width for box in column) + _BETWEEN
        height = max(height, y)
    arrows: list[str] = []
    for box, rule in zip(rules, found.rules, strict=True):
        for number, step in enumerate(rule.steps, 1):
            source = queries[step.source] if isinstance(step.source, int) else events[step.source]
            arrows.append(_arrow(source, box, f"{number}. {step.selection}"))
        arrows.append(_arrow(box, events[rule.event], ""))
    boxes = [line for column in columns for box in column for line in _drawn(box)]
    width = x - _BETWEEN + _GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
            'font-family="monospace" font-size="11">',
            f"<title>{escape(found.title)}</title>",
            '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8z"/></marker></defs>',
            '<rect width="100%" height="100%" fill="white"/>',
            *arrows,
            *boxes,
            "</svg>",
        ]
    )


def _arrow(start: _Box, end: _Box, label: str) -> str:
    x1, y1, x2, y2 = start.x + start.width, start.y + start.height / 2, end.x, end.y + end.height / 2
    if x2 < x1:  # back to a layer's own rules
        x1, x2 = start.x, end.x + end.width
    path = f'<path d="M{x1:.0f} {y1:.0f}C{(x1 + x2) / 2:.0f} {y1:.0f} {(x1 + x2) / 2:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"'
    drawn = f'{path} fill="none" stroke="#555" marker-end="url(#end)"/>'
    return (
        f'{drawn}<text x="{(x1 + x2) / 2:.0f}" y="{(y1 + y2) / 2 - 4:.0f}" text-anchor="middle">{escape(label)}</text>' if label else drawn
    )


def _drawn(box: _Box) -> Iterator[str]:
    frame = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
    yield f'<rect {frame} rx="{box.round:.0f}" fill="#f4f6f8" stroke="#333"/>'
    for number, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if number == 0 else ""
        yield f'<text x="{box.x + _PAD:.0f}" y="{box.y + _PAD + 11 + number * _LINE:.0f}"{weight}>{escape(line)}</text>'
