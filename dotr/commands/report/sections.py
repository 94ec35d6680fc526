"""Sections of the page of a report: tiles, tables, proofs and the program, complete without a
script."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Set
from typing import Final

from dotr.commands.report.data import InputSummary, ProofStep, RejectedExample, RejectedSummary, ReportData, RuleSummary
from dotr.errors.markup import Child, Markup, element, join
from dotr.errors.terminal import escape_controls
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.stream import Reason
from dotr.model.time import Clock, Micros
from dotr.syntax.rendering import duration_text

_REASONS: Final = {
    Reason.LATE: "Later elements of its input had come before it.",
    Reason.UNREADABLE: "Its time or its graph cannot be read.",
    Reason.INCONSISTENT: "Its instant contradicts itself or the background.",
    Reason.LIMIT: "It goes over a limit.",
    Reason.FAILED: "A query or a rule fails on it.",
    Reason.IDLE: "Its instant had closed while its input was idle.",
    Reason.CLOCK: "The pipeline's clock had passed its time.",
    Reason.EMPTY: "It is a message without triples, or a statement of a default graph without elements, and left out.",
    Reason.SECOND: "Another element of its input had the same time, where every element is an instant.",
    Reason.LOST: "The broker had deleted it before it was read.",
    Reason.GAP: "A unit would have acted too often between two instants.",
    Reason.AHEAD: "Its time is too long after the timestamp of its message.",
    Reason.CHANGED: "Its file has changed since it was opened; what was written later is not read.",
}


_UNFOLDED: Final = 40
_DRAWN: Final = 200
"""Numbers of rules up to which the program's picture is unfolded, and up to which it is shown."""
_SHORT: Final = 800
"""Number of characters up to which the reason of a rule is unfolded."""
_OPEN: Final = 8
"""Number of premises up to which a step of a proof is open."""


def _counted(number: int, noun: str) -> str:
    """
    >>> _counted(1, "rule"), _counted(2000, "rule")
    ('1 rule', '2,000 rules')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _number(number: int) -> Markup:
    return element("td", f"{number:,}", class_="number", data_value=str(number))


def _time(time: Micros | None, clock: Clock) -> Markup:
    text = "" if time is None else str(format_time(time, clock))
    return element("td", text, class_="time", data_value="-1e99" if time is None else str(time))


def _table(caption: str, heads: Iterable[str], rows: Iterable[Markup], *, numeric: Set[str], sortable: Set[str] = frozenset()) -> Markup:
    head = [
        element(
            "th",
            element("button", each, type="button", class_="sort") if each in sortable else each,
            scope="col",
            class_="number" if each in numeric else False,
        )
        for each in heads
    ]
    table = element("table", element("caption", caption), element("thead", element("tr", *head)), element("tbody", *rows))
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def tiles(data: ReportData) -> Markup:
    """The totals of the replay."""
    totals = data.totals
    rejected = sum(totals.dead_letters.values())
    unfired = sum(not rule.events for rule in data.rules)
    shown = [
        ("Elements", totals.elements, ""),
        ("Instants", totals.instants, ""),
        ("Facts", totals.facts, ""),
        ("Events", totals.events, ""),
        ("Dead letters", rejected, "bad" if rejected else ""),
        ("Rules that never fired", unfired, "warn" if unfired else ""),
    ]
    return element(
        "dl", *[element("div", element("dt", name), element("dd", f"{number:,}"), class_=kind or False) for name, number, kind in shown],
        class_="tiles",
    )  # fmt: skip


def rules(data: ReportData) -> Markup:
    """The table of rules: anchors, where bindings stopped, events."""
    if not data.rules:
        return element("p", "The program has no rules.")
    ordered = sorted(data.rules, key=lambda rule: rule.events > 0)
    heads = ("Rule", "Anchors", "Where bindings stopped", "Events", "First event", "Last event")
    rows = [_rule(rule, data) for rule in ordered]
    caption = f"{_counted(len(rows), 'rule')}, those that never fired first"
    return _table(caption, heads, rows, numeric={"Anchors", "Events"}, sortable={*heads} - {"Where bindings stopped"})


def _rule(rule: RuleSummary, data: ReportData) -> Markup:
    name: list[Child] = [element("button", rule.name, type="button", class_="link", data_rule=rule.name, title="Show in the timeline")]
    if not rule.events:
        name += [" ", element("span", "never fired", class_="badge")]
    if rule.documentation:
        name.append(element("span", rule.documentation, class_="note"))
    name.append(element("span", element("code", rule.place), class_="note"))
    return element(
        "tr",
        element("th", *name, scope="row", data_value=rule.name),
        _number(rule.anchors),
        element("td", *_funnel(rule, data)),
        _number(rule.events),
        _time(rule.first, data.clock),
        _time(rule.last, data.clock),
    )


def _funnel(rule: RuleSummary, data: ReportData) -> Iterable[Child]:
    steps: list[Child] = []
    before = rule.anchors
    for where, count in rule.funnel:
        stopped = before > 0 and count == 0
        steps += [", " if steps else "", element("b", f"{count:,} after {where}", class_="stop") if stopped else f"{count:,} after {where}"]
        before = count
    if rule.errors:
        told = [f"{_counted(number, 'error')} at {where}" for where, number in rule.errors.items()]
        steps.append(f" ({', '.join(told)})")
    if steps:
        yield element("span", *steps, class_="funnel")
    if rule.reason_not_fired:
        first, _, rest = rule.reason_not_fired.partition("\n")
        reason = (
            element("details", element("summary", first), element("pre", rest), open=len(rest) < _SHORT) if rest else element("p", first)
        )
        yield element("div", reason, class_="why")
    if not rule.events:
        yield element("span", "To ask for more: ", element("code", data.command("why-not", f"--rule {rule.name}")), class_="note")


def dead_letters(data: ReportData) -> Markup:
    """The dead letters by reason, with the first ones of each."""
    if not data.rejected:
        return element("p", "None: every element was taken.")
    heads = ("Reason", "Number", "The first of them")
    rows = [_reason(each, data.clock) for each in data.rejected]
    return _table("Elements that are in no instant, or make a rule fail", heads, rows, numeric={"Number"})


def _reason(summary: RejectedSummary, clock: Clock) -> Markup:
    examples = element("ul", *[element("li", *_example(each, clock)) for each in summary.examples], class_="examples")
    number = len(summary.examples)
    listed = examples if number == 1 else element("details", element("summary", f"{number} examples"), examples, open=True)
    reason = element("th", summary.reason.value, element("span", _REASONS[summary.reason], class_="note"), scope="row", class_="reason")
    return element("tr", reason, _number(summary.count), element("td", listed))


def _example(example: RejectedExample, clock: Clock) -> Iterable[Child]:
    time = "" if example.time is None else f" at {format_time(example.time, clock)}"
    yield element("code", example.place)
    yield f"{time}: {example.error}"
    if example.text:
        yield element("pre", example.text)


def inputs(data: ReportData) -> Markup:
    """The inputs: elements, first and last time, watermark and lag."""
    if not data.inputs:
        return element("p", "The program has no inputs.")
    heads = ("Input", "Elements", "Dead letters", "First element", "Last element", "Behind the last instant", "May still bring", "Lag")
    rows = [_input(each, data) for each in data.inputs]
    numeric = {"Elements", "Dead letters"}
    return join(
        _table("Inputs of the replay", heads, rows, numeric=numeric),
        element(
            "p",
            "An input that grows holds all others back to its own watermark: its lag is the distance to the furthest one. "
            "An input that has ended holds nothing back.",
            class_="caption",
        ),
    )


def _input(each: InputSummary, data: ReportData) -> Markup:
    files = each.files if len(each.files) <= 3 else (*each.files[:3], f"and {len(each.files) - 3:,} more")
    notes = [element("span", element("code", file), class_="note") for file in files]
    behind = None if each.last is None or data.last is None else data.last - each.last
    lag = "no element" if each.lag is None else "ended" if each.ended else duration_text(each.lag)
    return element(
        "tr",
        element("th", each.name, *notes, scope="row"),
        _number(each.elements),
        _number(each.rejected),
        _time(each.first, data.clock),
        _time(each.last, data.clock),
        element("td", "" if behind is None else duration_text(behind)),
        element("td", _open_from(each, data.clock), class_="time"),
        element("td", element("span", lag, class_="badge") if each.lag or each.lag is None else lag),
    )


def _open_from(each: InputSummary, clock: Clock) -> str:
    """The times of elements that an input may still have, from its watermark on."""
    if each.ended:
        return "nothing"
    return "any time" if each.passed is None else f"from {format_time(each.passed + 1, clock)} on"


def proofs(data: ReportData) -> Markup:
    """The proofs that events of the timeline open."""
    if not data.proofs:
        return element("p", "This page holds no proofs. ", element("code", "dotr why"), " gives the proof of an event.")
    shown = [_proof(k, proof) for k, proof in enumerate(data.proofs)]
    kept = (
        f"The proofs of {len(data.proofs):,} of {data.totals.events:,} events: of each rule the first and the last ones. "
        if len(data.proofs) < data.totals.events
        else ""
    )
    return join(element("p", kept, "An event of the timeline opens its proof."), *shown)


def _proof(number: int, proof: ProofStep) -> Markup:
    tree = element("ul", *map(_step, proof.premises), class_="tree")
    return element("details", element("summary", proof.text), tree, class_="proof", id=f"proof-{number}")


def _step(step: ProofStep) -> Markup:
    text = [element("span", step.text, class_="fact"), *([" ", element("span", step.place, class_="place")] if step.place else [])]
    if not step.premises:
        return element("li", *text)
    return element(
        "li", element("details", element("summary", *text), element("ul", *map(_step, step.premises)), open=len(step.premises) <= _OPEN)
    )


def program(data: ReportData) -> Markup:
    """The picture of the program, and its text."""
    rules = _counted(len(data.rules), "rule")
    if len(data.rules) > _DRAWN:
        command = element("code", f"dotr explain {shlex.quote(data.config)}")
        return element("p", f"The picture and the text of {rules} are too large for this page: ", command, ".")
    svg = Markup(escape_controls(data.program.svg))
    picture = element("div", svg, class_="picture", tabindex="0", role="img", aria_label="Queries, rules and events")
    if len(data.rules) > _UNFOLDED:
        picture = element("details", element("summary", f"The picture of {rules}"), picture)
    return join(picture, element("details", element("summary", "The same as text"), element("pre", data.program.text)))
