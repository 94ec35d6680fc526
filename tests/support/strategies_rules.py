"""Random rules from every production of the rule language's grammar, over given labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.support.strategies_expressions import condition, one_of, operand
from tests.support.strategies_queries import constraints, queries
from tests.support.strategies_streams import NAMES, VALUES, pick


@dataclass(frozen=True)
class Shared:
    """A query or event that may be read by label: its attributes, and the labels and attributes that its constraints read."""

    attributes: tuple[str, ...]
    expects: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Readable:
    """Labels that a rule may read: shared queries, events also of the same instant, and past events.

    `plain`: its own queries are plain too; `instant`: the rule reads only its own instant.
    """

    queries: Mapping[str, Shared]
    events: Mapping[str, Shared]
    past: Mapping[str, Shared]
    plain: bool = False
    instant: bool = False


@dataclass
class Bound:
    """Labels bound so far, each with its attributes and least distance back; aggregate variables."""

    attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    back: dict[str, bool] = field(default_factory=dict)
    aggregates: list[str] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)

    def terms(self) -> list[str]:
        """`M.?v` for every attribute bound, and the times."""
        named = [f"{label}.?{v}" for label, names in self.attributes.items() for v in names]
        return [*named, *(f"time({label})" for label in self.attributes)]

    def meets(self, shared: Shared) -> bool:
        return all(name in self.attributes.get(label, ()) for label, name in shared.expects)


class Words:
    """Random spelling of a text's keywords, with spaces and comments between its tokens."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.change = pick(draw, [str.lower, str.lower, str.upper, str.title])
        self.end = pick(draw, ["\n", "\n", " ", " # and last X within 5 s from Y ]\n\t"])

    def __call__(self, text: str) -> str:
        return str(self.change(text))


# --- lengths and windows ---


def duration(draw: st.DrawFn, halves: int) -> str:
    """A duration of `halves` half seconds, in one of many spellings."""
    if halves == 0:
        return pick(draw, ("0", "0 s", "0.0", "0 min 0 ms", '"PT0S"^^xsd:duration'))
    milliseconds = halves * 500
    written = f"{halves // 2}{'.5' if halves % 2 else ''}"
    forms = [
        f"{written} s",
        f"{written}s",
        f"{written} Seconds",
        f"{written} secs.",
        f"{milliseconds} ms",
        f"{milliseconds * 1000} us",
        f'"PT{written}S"^^xsd:duration',
        f'"P0DT0H{written}S"^^<http://www.w3.org/2001/XMLSchema#duration>',
    ]
    if halves > 1:
        forms += [f"{(halves - 1) // 2}{'.5' if halves % 2 == 0 else '.0'} sec 500 ms", f"500ms {milliseconds - 500}000 us"]
    if halves == 1:
        forms.append(".5 s")
    if halves % 6 == 0:
        forms.append(f"{halves / 120:g} min")
    return pick(draw, forms)


def seconds(draw: st.DrawFn, least: int, most: int) -> int:
    """A number of half seconds, mostly whole seconds."""
    return draw(st.integers(least, most)) * 2 - (1 if least and draw(st.integers(0, 7)) == 7 else 0)


def window(draw: st.DrawFn, words: Words, *, strict: bool = False) -> tuple[str, bool]:
    """A window's extent, and true if it excludes the present; `strict` ones do."""
    match draw(st.integers(0, 5)):
        case 0 | 1 | 2:
            return duration(draw, pick(draw, [16, 10, 12, 6, 8, 5, 4, 2, 1])), True
        case 3 if not strict:
            return f"[{duration(draw, 0)}, {duration(draw, seconds(draw, 0, 7))}]", False
        case _:
            low = seconds(draw, 0, 3)
            high = low + seconds(draw, 1, 6)
            opening = "(" if strict and low == 0 else pick(draw, "[(")
            return f"{opening}{duration(draw, low)}, {duration(draw, high)}{pick(draw, '])')}", low > 0 or opening == "("


# --- events ---


@dataclass(frozen=True)
class Event:
    """An event's text, label and attributes; `now`: it may not be read at the rule's own instant."""

    text: str
    label: str
    attributes: tuple[str, ...]
    strict: bool = False


def event(draw: st.DrawFn, words: Words, fallback: str, bound: Bound, readable: Readable, *, past: bool, anchor: bool = False) -> Event:
    """An event of a clause or an anchor; `past`: it is certainly in the past, so that any event may be read."""
    outer = [*bound.terms(), *bound.aggregates]
    by_label = {name: shared for name, shared in readable.queries.items() if bound.meets(shared)}
    by_label |= readable.events
    late = {} if anchor and not past else {name: shared for name, shared in readable.past.items() if name not in readable.events}
    origins = [*by_label, *readable.events, *late, *late]
    if not origins or draw(st.booleans()):
        query = draw(queries(outer, readable.plain))
        hidden = [name for name in (*readable.queries, *readable.events) if name not in bound.labels]
        label = pick(draw, hidden) if hidden and draw(st.integers(0, 7)) == 0 else fallback
        return Event(f"{label} = [ {query.text} ]", label, query.projected)
    origin = pick(draw, origins)
    names = (late.get(origin) or by_label[origin]).attributes
    label, text = fallback, f"{origin} {words('as')} {fallback}"
    if origin not in bound.labels and draw(st.integers(0, 2)) == 0:
        label, text = origin, origin
    match draw(st.integers(0, 7)):
        case 0:
            text += " [ ]"
        case 1 | 2 | 3 | 4 if names and (outer or not draw(st.integers(0, 3))):
            own = [f"?{v}" for v in names]
            count = pick(draw, [1, 1, 1, 2])
            made = [draw(constraints(own, outer)) if outer else condition(draw, own, VALUES) for _ in range(count)]
            text += f" [ {' '.join(f'FILTER({each})' for each in made)} ]"
    return Event(text, label, names, strict=origin in late and not past)


def anchor(draw: st.DrawFn, words: Words, readable: Readable) -> tuple[str, Event]:
    """An anchor's text: plain, ticks, or delayed."""
    if readable.instant:
        found = event(draw, words, "L0", Bound(), readable, past=False, anchor=True)
        return found.text, found
    kind = pick(draw, ("plain", "plain", "plain", "plain", "every", "every for", "delayed", "delayed", "by value"))
    halves = seconds(draw, 1, 4)
    if kind == "every":
        return f"{words('every')} {duration(draw, halves)} {words('as')} L0", Event("", "L0", ())
    if kind == "every for":
        query = draw(queries((), readable.plain))
        return f"{words('every')} {duration(draw, halves)} {words('for')} [ {query.text} ] {words('as')} L0", Event(
            "", "L0", query.projected
        )
    found = event(draw, words, "L0", Bound(), readable, past=kind == "delayed", anchor=True)
    if kind == "by value":
        own = [f"{found.label}.?{v}" for v in found.attributes] or ["0.5"]
        value = pick(draw, [*own, *own, f"{own[0]} * 0.4", f"COALESCE({own[0]} / 2, 1)", f"IF(time({found.label}) = {own[0]}, 0, 1.5)"])
        return f"{found.text} {words('delayed by')} {value} {words('at most')} {duration(draw, seconds(draw, 1, 6))}", found
    return found.text + (f" {words('delayed by')} {duration(draw, halves)}" if kind == "delayed" else ""), found


# --- clauses ---


def scope(draw: st.DrawFn, words: Words, bound: Bound, made: Event, reference: str, *, between: bool, instant: bool) -> tuple[str, bool]:
    """`within … from` or `between … and …`, and true if it covers only the past."""
    if instant:
        return f"{words('within')} [{duration(draw, 0)}, {duration(draw, 0)}] {words('from')} {reference}", False
    if between:
        one, other, *_ = draw(st.permutations(sorted(bound.attributes)))
        return f"{words('between')} {one} {words('and')} {other}", True
    extent, back = window(draw, words, strict=made.strict)
    return f"{words('within')} {extent} {words('from')} {reference}", back or bound.back[reference]


def clause(draw: st.DrawFn, words: Words, number: int, bound: Bound, readable: Readable) -> tuple[str, str]:
    """A clause's text, and the label that it adds; empty: it cannot be consumed."""
    label = f"L{number}"
    if not readable.instant and draw(st.integers(0, 7)) == 0 and (standing := standing_clause(draw, words, label, bound, readable)):
        return standing, ""
    reference = pick(draw, sorted(bound.attributes))
    kind = pick(draw, ("each", "last", "first", "last", "not", "aggregate", "aggregate"))
    between = not readable.instant and kind in ("not", "aggregate") and len(bound.attributes) > 1 and draw(st.booleans())
    made = event(draw, words, label, bound, readable, past=bound.back[reference] or between)
    where, back = scope(draw, words, bound, made, reference, between=between, instant=readable.instant)
    bound.labels.add(made.label)
    start = words("and")
    if kind == "not":
        return f"{start} {words('not')} {made.text} {where}", ""
    if kind == "aggregate":
        variable = f"?g{number}"
        function = pick(draw, ("count", "sum", "avg", "min", "max", "median", "quantile", "variance", "stddev"))
        distinct = pick(draw, ("", f"{words('distinct')} "))
        distinct = f"{pick(draw, ('0', '0.25', '0.9', '1'))}, {distinct}" if function == "quantile" else distinct
        inside = f"{words(function)}({distinct}{made.label}.?{pick(draw, made.attributes)})" if made.attributes else ""
        if not inside or (function == "count" and draw(st.booleans())):
            inside = f"{words('count')}(*)"
        bound.aggregates.append(variable)
        return f"{start} {variable} = {inside} {words('of')} {made.text} {where}", made.label
    count = f" {draw(st.integers(1, 3))}" if kind != "each" and draw(st.integers(0, 2)) == 0 else ""
    bound.attributes[made.label], bound.back[made.label] = made.attributes, back
    also = f"{words('also')} " if draw(st.integers(0, 3)) == 0 else ""
    return f"{start} {also}{words(kind)}{count} {made.text} {where}", made.label


def standing_clause(draw: st.DrawFn, words: Words, label: str, bound: Bound, readable: Readable) -> str:
    """A clause with `before` over what is read by label, tied by equalities; empty where nothing can be read. It is not consumed."""
    origins = {name: shared.attributes for name, shared in readable.queries.items() if not shared.expects}
    origins |= {name: shared.attributes for name, shared in {**readable.past, **readable.events}.items()}
    if not origins:
        return ""
    origin = pick(draw, sorted(origins))
    own, terms = origins[origin], [f"{each}.?{v}" for each, names in bound.attributes.items() for v in names]
    made = [f"?{pick(draw, own)} = {pick(draw, terms)}" for _ in range(draw(st.integers(0, 2))) if own and terms]
    made += [condition(draw, [f"?{v}" for v in own], VALUES) for _ in range(draw(st.integers(0, 1))) if own]
    filters = " ".join(f"FILTER({each})" for each in made)
    text = f"{origin} {words('as')} {label} [ {filters} ] {words('before')} {next(iter(bound.attributes))}"
    bound.labels.add(label)
    if draw(st.booleans()):
        return f"{words('and')} {words('not')} {text}"
    bound.attributes[label], bound.back[label] = own, True
    return f"{words('and')} {words('also')} {words('last')} {text}"


# --- templates ---


def template(draw: st.DrawFn, event: str, own: Sequence[str]) -> str:
    """Turtle with variables, fresh names and blank nodes."""
    holes = [f"?{v}" for v in own]

    def node(depth: int) -> str:
        below = depth - 1
        options = [*holes, *holes, "dotr_id", "dotr_id1", "_:x", f":{event}"]
        if depth < 1 or draw(st.integers(0, 2)):
            return pick(draw, options)
        return one_of(
            draw,
            lambda: f"( {' '.join(value(below) for _ in range(draw(st.integers(0, 2))))} )",
            lambda: f"[ {verb()} {value(below)} ]",
            lambda: "[]",
            lambda: f"<< {node(0)} {verb()} {value(0)}{pick(draw, ('', ' ~ _:x', ' ~'))} >>",
        )

    def quoted() -> str:
        return f"<<( {node(0)} {verb()} {value(0)} )>>"

    def annotation() -> str:
        return pick(draw, (" ~ dotr_id", f" {{| :has {value(0)} |}}", f" ~ _:x {{| {verb()} {value(0)} |}}"))

    def verb() -> str:
        return pick(draw, ("a", ":v", ":has", *holes))

    def value(depth: int) -> str:
        return pick(draw, ("7.50", '"it"@EN', "true", "'''a ] b'''", *NAMES)) if draw(st.integers(0, 4)) == 0 else node(depth)

    statements = []
    for _ in range(pick(draw, [1, 2, 1, 0])):
        more = f" , {value(1)}" if draw(st.integers(0, 2)) == 0 else ""
        if draw(st.integers(0, 7)) == 7:
            more += pick(draw, (annotation(), f" , {quoted()}"))
        further = f" ; {verb()} {value(0)}" if draw(st.integers(0, 2)) == 0 else ""
        statements.append(f"{node(1)} {verb()} {value(1)}{more}{further}")
    # The template has all assigned attributes; without any, a fresh name distinguishes the events.
    statements += [f"[] :has {hole}" for hole in holes if draw(st.integers(0, 3))]
    dot = " ." if draw(st.booleans()) and statements else ""
    prefix = "PREFIX t.t: <http://example.org/> t.t:a t.t:v t.t:a . " if draw(st.integers(0, 11)) == 11 else ""
    return prefix + " . ".join(statements) + dot


# --- rules ---


@st.composite
def rules(draw: st.DrawFn, name: str, event: str, readable: Readable, own: tuple[str, ...]) -> str:
    """A rule that defines an event with the attributes `own`; without a name, the event's label is its name."""
    words, bound = Words(draw), Bound()
    text, made = anchor(draw, words, readable)
    bound.attributes[made.label], bound.back[made.label] = made.attributes, False
    bound.labels.add(made.label)
    lines = [f"{words('from')} {text}"]
    consumable = [made.label]
    for number in range(1, 1 + pick(draw, [1, 1, 2, 2, 0, 3])):
        line, label = clause(draw, words, number, bound, readable)
        lines.append(line)
        consumable += [label] if label else []
    terms = [*bound.terms(), *bound.aggregates, *bound.aggregates]
    if draw(st.integers(0, 3)) == 0:
        lines.append(f"{words('if')} {condition(draw, terms, [*terms, *VALUES])}")
    if own:
        lines.append(f"{words('with')} " + ", ".join(f"{event}.?{v} = {operand(draw, terms)}" for v in own))
    consumed = [label for label in consumable if draw(st.integers(0, 2)) == 0]
    if consumed:
        lines.append(f"{words('consuming')} " + ", ".join(draw(st.permutations(consumed))))
    documentation = pick(draw, ("", "", ' "What it is for."', " '''It's [ \n # for'''"))
    head = f"{words('rule')} {name}{documentation}{words.end}" if name else ""
    define = f"{words('define')} {event} = [ {template(draw, event, own)} ]{words.end}"
    if draw(st.integers(0, 3)) == 3:
        keys = draw(st.lists(st.sampled_from(own), unique=True)) if own else []
        per = f" {words('per')} {', '.join(f'?{key}' for key in keys)}" if keys else ""
        lines.append(f"{words('once')} {words('in')} {duration(draw, 0 if readable.instant else pick(draw, [0, 4, 8, 2]))}{per}")
    return head + define + words.end.join(lines) + pick(draw, ("\n", " ;\n"))
