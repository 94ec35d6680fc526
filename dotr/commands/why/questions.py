"""Questions about a rule as the command line writes them: a rule, times, and attributes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from dotr.commands.test.cases import Case, load_test
from dotr.commands.test.files import is_test
from dotr.engine.replay import Replay
from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean, refuse
from dotr.evaluation.expressions.values.times import iso
from dotr.explanations.unit import question_attributes
from dotr.explanations.why_not.survey import Question
from dotr.model.algebra import Attribute, Select
from dotr.model.places import Document, Span
from dotr.model.rules import Rule
from dotr.model.terms import WELL_KNOWN, Prefixes, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.runtimes.pipeline.config import Config, read_config, read_document
from dotr.runtimes.pipeline.replay import replay_of_config
from dotr.streams.time_formats import time_parser
from dotr.syntax.sparql import parse_select, scan_references
from dotr.syntax.turtle.graphs import Misread, read_graph
from dotr.syntax.yaml import read_tree
from dotr.temporal.layout.units import StreamUnit, units_by_label

_VARIABLE: Final = re.compile(r"\?(\w+)")
_BLANK: Final = re.compile(r"(?<![\w:])_:[\w-]+")


def json_text(content: Mapping[str, object], prefixes: Prefixes, indent: int | None = None) -> str:
    """The JSON object of an answer, with the namespaces of all prefixes in its texts beside them.

    >>> json_text({"text": "a :Leak of rdfs:label"}, {"": "http://e/", "b": "http://b/"})
    '{"text": "a :Leak of rdfs:label", "prefixes": {"rdfs": "http://www.w3.org/2000/01/rdf-schema#", "": "http://e/"}}'
    """
    text = json.dumps(content, ensure_ascii=False)
    known = {**WELL_KNOWN, **prefixes}.items()
    used = {name: namespace for name, namespace in known if re.search(rf"(?<![\w.:-]){re.escape(name)}:(?=[\w%\\])", text)}
    return json.dumps({**content, "prefixes": used} if used else content, ensure_ascii=False, indent=indent)


def rule_named(replay: Replay, name: str) -> Rule | StreamUnit:
    """The rule of a name, or the unit that makes events of that label; raises `Refused`."""
    rules = {rule.name: rule for rule in replay.program.rules.rules}
    units = units_by_label(replay.program.units)
    found = rules.get(name) or units.get(name)
    if found is None:
        names = [*rules, *units]
        hint = did_you_mean(name, names) or (f"The program has {', '.join(sorted(names))}." if names else "The program has no rules.")
        raise refuse("C219", f"there is no {'rule or query' if units else 'rule'} {name}", None, hint)
    return found


def time_of(replay: Replay, text: str, option: str) -> Micros:
    """The time in µs since 1970 of a text in the form of element times, or of times in the output;
    raises `Refused`."""
    unformed: ValueError | None = None
    for form, zone in replay.time_forms:
        if form is not None:
            try:
                return time_parser(form, zone)(text, replay.clock.unit)
            except ValueError as error:
                unformed = unformed or error
    try:
        return time_parser(None, replay.clock.zone or None)(text, replay.clock.unit)
    except ValueError as error:
        error = error if unformed is None or text[4:5] == "-" else unformed  # 2024-02-31 is in the form of the output
        example = iso(1_709_276_400_000_000, replay.clock.zone) if replay.clock.dated else "1200, or 2024-03-01T07:00:00Z"
        raise refuse("C219", f"{option}: {error}", None, f"Write a time as an element may have it: {example}.") from None


def times_of(
    replay: Replay, *, at: str | None = None, first: str | None = None, last: str | None = None
) -> tuple[Micros | None, Micros | None]:
    """The first and the last time of a question in µs since 1970, None without a bound; raises
    `Refused`.
    """
    if at is not None:
        if first is not None or last is not None:
            raise refuse("C219", "--at is one time, --from and --to are a range", None, "Leave one of them out.")
        time = time_of(replay, at, "--at")
        return time, time
    since = None if first is None else time_of(replay, first, "--from")
    return since, None if last is None else time_of(replay, last, "--to")


def query_of(replay: Replay, text: str) -> Select:
    """The ad hoc query of a text; raises `Refused` with the place in the text.

    The prefixes of the rule files and the configuration are declared.
    """
    span = Span(Document("--query", text), 0, len(text))
    select = parse_select(span, {**WELL_KNOWN, **replay.prefixes})
    reference = next(iter(scan_references(span)), None)
    if reference is not None:
        hint = "It asks what holds at one instant: leave out M.?v and time(M)."
        raise refuse("C219", "an ad hoc query has no events of a rule", reference.span, hint)
    return select


def conditions_of(replay: Replay, texts: Sequence[str], attributes: Sequence[Variable], label: str) -> tuple[tuple[Variable, Term], ...]:
    """The attributes and terms of `--where`; raises `Refused`.

    Args:
        replay: gives the prefixes of the terms.
        texts: such as `room=:lab`.
        attributes: the names of the event's attributes.
        label: the label of the event that has them.
    """
    found = []
    for text in texts:
        name, equals, term = text.partition("=")
        name = name.strip().removeprefix("?")
        if not equals:
            raise refuse("C219", f"--where {text} has no =", None, "Write the name of an attribute and a term, such as room=:lab.")
        if name not in attributes:
            has = f"{label} has {', '.join(attributes)}." if attributes else f"{label} has no attributes."
            raise refuse("C219", f"{label} has no attribute {name}", None, did_you_mean(name, attributes) or has)
        found.append((name, _term(term.strip(), replay.prefixes, replay.program.spec.limits.nesting)))
    return tuple(found)


def triple_of(replay: Replay, text: str) -> Triple:
    """The triple of a text in Turtle, with its blank nodes as they are written; raises `Refused`.

    A variable of the text is a blank node of its name.
    """
    prefixes, nesting = replay.prefixes, replay.program.spec.limits.nesting
    for written in (text, _VARIABLE.sub(r"_:\1", text)):
        try:
            triples = read_graph(f"{written.strip().removesuffix('.')}\n.", prefixes, nesting)
        except (Misread, ValueError):
            continue
        if len(triples) == 1:
            labels = {f"_:{number}": label for number, label in enumerate(dict.fromkeys(_BLANK.findall(written)))}
            subject, predicate, value = (labels.get(term, term) for term in triples[0])
            return subject, predicate, value
    raise refuse("C219", f"{text or 'nothing'} is no triple", None, "Write subject, predicate and object in Turtle: ':r :in :lab'.")


def question_of(
    replay: Replay,
    rule: str,
    where: Sequence[str],
    *,
    at: str | None = None,
    first: str | None = None,
    last: str | None = None,
    every: bool = False,
) -> Question:
    """The question of the options of `why-not`; raises `Refused`.

    Args:
        replay: gives the rules, the form of times and the prefixes.
        rule: the name of a rule, or the label of a unit's events.
        where: texts such as `room=:lab`.
        at: a time; excludes `first` and `last`.
        first, last: times, both included.
        every: explain every anchor that did not fire.
    """
    named = rule_named(replay, rule)
    where = [_of_anchor(named, each) for each in where] if isinstance(named, Rule) else where
    since, until = times_of(replay, at=at, first=first, last=last)
    label = named.anchor.label if isinstance(named, Rule) else rule
    return Question(since, until, conditions_of(replay, where, question_attributes(replay, rule), label), every)


def _of_anchor(rule: Rule, text: str) -> str:
    """A text such as `m=:press1` about the anchor; `m` may be an attribute of the event that `with`
    copies from it."""
    name, equals, term = text.partition("=")
    copied = next((each.expression for each in rule.assignments if each.variable == name.strip().removeprefix("?")), None)
    anchor = rule.anchor
    if name.strip().removeprefix("?") in anchor.source.attributes or not isinstance(copied, Attribute) or copied.label != anchor.label:
        return text
    return f"{copied.name}{equals}{term}"


def _term(text: str, prefixes: Prefixes, nesting: int) -> Term:
    """The term of a text in Turtle; raises `Refused`."""
    try:
        triples = read_graph(f"<urn:x> <urn:x> {text}\n.", prefixes, nesting)
    except (Misread, ValueError):
        triples = ()
    if len(triples) != 1:
        raise refuse("C219", f"{text or 'nothing'} is no term", None, f"Write it in Turtle: :name, 5, or '\"{text}\"' for a text.")
    return triples[0][2]


# Replays of configurations and of the cases of rule tests.


def open_replays(path: str, case: str | None = None, options: Sequence[str] = ()) -> list[Replay]:
    """Replays of a configuration (one) or of a rule test (one for each case).

    Args:
        path: a configuration or a rule test.
        case: the number of a case, counted from 1, or its name; None for all.
        options: values that change the configuration, as those of `--set`.

    Raises:
        Refused: a file cannot be read or is wrong, or there is no such case.

    >>> [replay.case for replay in open_replays("tests/cases/rule_r.yaml", "1")]
    ['smoke after heat in one room is a fire']
    """
    if not is_test(read_tree(read_document(path)).data):
        config = read_config(path, options)
        if case is not None:
            raise refuse("C218", f"{path} is a configuration, which has no cases", None, "Leave --case out, or name a rule test.")
        return [replay_of_config(config, f"{path} --start {config.start}" if config.start else path)]
    if options:
        raise refuse("C218", f"{path} is a rule test, in which --set changes nothing", None, "Leave --set out, or name a configuration.")
    test = load_test(path)
    return [test.replay(number) for number in _selected(path, test.cases, case)]


def config_of(path: str, options: Sequence[str] = ()) -> Config | None:
    """The configuration at a path; None for a rule test."""
    return None if is_test(read_tree(read_document(path)).data) else read_config(path, options)


def _selected(path: str, cases: Sequence[Case], case: str | None) -> Sequence[int]:
    """Numbers of the selected cases, counted from 0."""
    if case is None:
        return range(len(cases))
    names = [each.name for each in cases]
    if case in names:
        return [number for number, name in enumerate(names) if name == case]
    if case.isdecimal() and 1 <= int(case) <= len(cases):
        return [int(case) - 1]
    hint = did_you_mean(case, names) or f"It has {len(cases)}: name one, or write its number from 1 on."
    raise Refused([Diagnostic("C218", f"{path} has no case {case}", None, hint)])
