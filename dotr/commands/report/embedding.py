"""Timeline and events of a report as JSON inside its page.

Idea: texts that recur (terms, names) are stored once and referred to by number, times are distances
from the first one in the greatest unit that divides all of them (`grain`), so that 50,000 events
take a few megabytes. A browser's numbers hold integers below 2**53 only, hence the first time is a
text.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import gcd

from dotr.commands.report.data import Lane, ReportData, ReportedEvent
from dotr.commands.report.markup import Markup
from dotr.errors.terminal import escape_controls
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
            "clock": {"unit": data.clock.unit.value, "dated": data.clock.dated},
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
