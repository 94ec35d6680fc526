"""Random programs of LARS files, rules, continuous queries and Datalog, and their elements, with ties and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hypothesis import strategies as st

SECOND = 1_000_000
_Choice = TypeVar("_Choice")


class Atom(NamedTuple):
    """Text of an atom and its variables."""

    text: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class LarsProgram:
    """Texts of a program, and elements: second and Turtle. `later` is a second LARS file, which reads labels of the first."""

    first: str
    later: str
    rules: str
    queries: str
    datalog: str
    background: str
    elements: tuple[tuple[float, str], ...]


DATALOG = ("", "", "", ":q(?x, ?y) :- :p(?y, ?x) .", ":A(?x) :- :p(?x, ?y), NOT :B(?y) .", ":p(?x, ?z) :- :part(?x, ?y), :p(?y, ?z) .")
BACKGROUND = (
    "",
    ":a a :Kind . :b a :Kind .",
    ":a a :Kind . :a :part :b . :b :part :c .",
    ":c a :Kind . :a :p :b .",
    ":a :p :c . :c a :B .",
)
RULES = """
query Near = [ SELECT ?x ?y WHERE { ?x :q ?y } ]
query May = [ SELECT ?x ?y WHERE { ?x a :A OPTIONAL { ?x :p ?y } } ]
rule R1 define Made = [ [] :of ?x ] from T = [ SELECT ?x ?y WHERE { ?x :p ?y } ] with Made.?x = T.?x, Made.?y = T.?y
rule R2 define Made = [ [] :of ?x ] from T = [ SELECT ?x WHERE { ?x a :B } ] with Made.?x = T.?x
rule R3 define Late = [ [] :of ?x ] from T = [ SELECT ?x WHERE { ?x a :A } ] delayed by 1500 ms with Late.?x = T.?x
rule R4 define Tick = [ [] a :Tick ] from every 2 s as T
"""
QUERIES = "REGISTER RSTREAM <Wide> AS SELECT ?x ?y FROM WINDOW ON :in [RANGE 4s STEP 3s] WHERE { ?x :p ?y }"
STREAMED = (
    Atom(":p(?x, ?y)", ("x", "y")),
    Atom(":p(?x, ?y)", ("x", "y")),
    Atom(":p[?y, ?z]", ("y", "z")),
    Atom(":q(?x, ?y)", ("x", "y")),
    Atom(":q(?z, ?x)", ("z", "x")),
    Atom(":A(?x)", ("x",)),
    Atom(":B(?y)", ("y",)),
    Atom(":p(?x, :a)", ("x",)),
    Atom(":p(?x, ?x)", ("x",)),
    Atom(":q(?x, 1)", ("x",)),
    Atom("[?x, a, ?c]", ("x", "c")),
)
ANY = (Atom("[?x, ?r, ?y]", ("x", "r", "y")), Atom("[:a, ?r, ?y]", ("r", "y")))
OF_BACKGROUND = (Atom(":Kind(?x)", ("x",)), Atom(":Kind(?y)", ("y",)), Atom(":part(?x, ?y)", ("x", "y")))
EVENTS = (
    Atom("EVENT Made(?x)", ("x",)),
    Atom("EVENT Made(?x, ?y)", ("x", "y")),
    Atom("EVENT Made(?x AS ?y, ?y AS ?x)", ("y", "x")),
    Atom("EVENT Made(?y AS :b, ?x)", ("x",)),
    Atom("EVENT Made", ()),
    Atom("EVENT Near(?x AS ?z, ?y)", ("z", "y")),
    Atom("EVENT May(?x, ?y)", ("x", "y")),
    Atom("EVENT May(?x)", ("x",)),
    Atom("EVENT Late(?x)", ("x",)),
    Atom("EVENT Tick", ()),
    Atom("EVENT Wide(?x, ?y)", ("x", "y")),
)
FACTS = Atom("Named(?x)", ("x",))
RELATIONS = (("P", 1), ("Q", 2), (":d", 2), ("S", 1), (":D", 1), ("Z", 0), (":q", 2))
"""Names and arities of derived relations, in the order in which NOT may read them."""


def pick(draw: st.DrawFn, choices: Sequence[_Choice]) -> _Choice:
    return draw(st.sampled_from(choices))


def often(draw: st.DrawFn, one_in: int) -> bool:
    return draw(st.integers(1, one_in)) == 1


def atom_of(draw: st.DrawFn, relation: tuple[str, int], names: Sequence[str], *, constants: bool = True) -> Atom:
    """An atom of a relation over some variables."""
    name, arity = relation
    terms: list[str] = []
    used: list[str] = []
    for _ in range(arity):
        if not names or (constants and often(draw, 8)):
            terms.append(pick(draw, (":a", ":b", "1")) if terms or not name.startswith(":") else ":a")
        else:
            used.append(pick(draw, names))
            terms.append(f"?{used[-1]}")
    return Atom(f"{name}({', '.join(terms)})" if terms else name, tuple(dict.fromkeys(used)))


@dataclass
class FileDraft:
    """A file under construction: `resolution` in ms; `relations` that it derives; `events` that it may read."""

    resolution: int
    relations: list[tuple[str, int]]
    events: Sequence[Atom]

    @property
    def derives_triples(self) -> bool:
        return any(name.startswith(":") for name, _ in self.relations)

    def is_derived(self, atom: Atom) -> bool:
        names = {name for name, _ in self.relations}
        if atom.text.startswith("[?x, a"):
            return any(name == ":D" for name in names)
        return any(atom.text.startswith((f"{name}(", f"{name}[")) or atom.text == name for name in names)

    def time_window(self, draw: st.DrawFn) -> str:
        if often(draw, 5):
            return "[0]"
        r, nearest = self.resolution, 0 if often(draw, 2) else draw(st.integers(0, 3))
        farthest = nearest + draw(st.integers(0, 4))
        low, high = nearest * r, farthest * r
        if nearest == 0 and often(draw, 2):
            return f"[{high} ms]"
        if nearest > 0 and often(draw, 3):
            return f"({low - r} ms, {high + draw(st.integers(0, 1)) * (r // 2)} ms]"
        return f"[{low} ms, {high} ms]" if often(draw, 2) else f"[{low} ms, {high + r} ms)"

    def window(self, draw: st.DrawFn, atom: Atom) -> str:
        is_event = atom.text.startswith("EVENT")
        can_count = is_event or (atom in STREAMED and not self.is_derived(atom)) or (atom in ANY and not self.derives_triples)
        if not can_count or often(draw, 2) or often(draw, 2):
            return self.time_window(draw)
        count = draw(st.integers(1, 4))
        kinds = [f"[LAST {count} MATCHING]"]
        if atom.names:
            kinds.append(
                f"[LAST {count} PER {', '.join(f'?{name}' for name in draw(st.permutations(atom.names))[: draw(st.integers(1, 2))])}]"
            )
        if not is_event:
            kinds.append(f"[LAST {count}]")
        return pick(draw, kinds)

    def base_atom(self, draw: st.DrawFn, level: int, *, negated: bool) -> Atom:
        """An atom that a rule of a level may read."""
        triples = [number for number, (name, _) in enumerate(self.relations) if name.startswith(":")]
        below = [r for number, r in enumerate(self.relations) if number < level or (not negated and number == level)]
        kind = draw(st.integers(0, 11))
        if kind <= 2 and below:
            return atom_of(draw, pick(draw, below), ("x", "y", "z"))
        if kind == 3 and (max(triples, default=-1) < level or (not negated and max(triples, default=-1) <= level)):
            return pick(draw, ANY)
        if kind == 4:
            return pick(draw, OF_BACKGROUND)
        if kind == 5:
            return FACTS
        if kind <= 7:
            return pick(draw, self.events)
        readable = [each for each in STREAMED if not self.is_derived(each) or not self.above(each, level, negated=negated)]
        return pick(draw, readable)

    def above(self, atom: Atom, level: int, *, negated: bool) -> bool:
        """True if the file derives the atom at a level that may not be read."""
        for number, (name, _) in enumerate(self.relations):
            if atom.text.startswith((f"{name}(", f"{name}[")) or (name == ":D" and atom.text.startswith("[?x, a")):
                return number >= level if negated else number > level
        return False

    def literal(self, draw: st.DrawFn, level: int, bound: Sequence[str], times: list[str], *, negated: bool) -> Atom:
        """A literal, with the variables that it binds."""
        atom = self.base_atom(draw, level, negated=negated)
        kind = draw(st.integers(0, 9))
        if kind <= 1:
            return atom
        window = self.window(draw, atom)
        if kind <= 4:
            return Atom(f"{atom.text} IN {window}", atom.names)
        if kind <= 6:
            return Atom(f"{atom.text} ALWAYS IN {window}", atom.names)
        if kind <= 8:
            if often(draw, 6):
                return Atom(f"{atom.text} AT {draw(st.integers(0, 6))} IN {window}", atom.names)
            time = pick(draw, ("t", "u"))
            if not negated:
                times.append(time)
            return Atom(f"{atom.text} AT ?{time} IN {window}", (*atom.names, time))
        other = self.base_atom(draw, level, negated=negated)
        known = {*other.names, *bound}
        for _ in range(6):
            if set(atom.names) <= known:
                return Atom(f"{atom.text} SINCE {other.text} IN {self.time_window(draw)}", other.names)
            atom = self.base_atom(draw, level, negated=negated)
        return Atom(f"{other.text} SINCE {other.text} IN {self.time_window(draw)}", other.names)

    def rule(self, draw: st.DrawFn, level: int) -> str:
        """A rule of the relation of a level."""
        items: list[str] = []
        bound: list[str] = []
        times: list[str] = []
        for _ in range(draw(st.integers(1, 3))):
            literal = self.literal(draw, level, bound, times, negated=False)
            items.append(literal.text)
            bound += [name for name in literal.names if name not in bound]
        if often(draw, 3):
            negated = [self.literal(draw, level, bound, [], negated=True) for _ in range(draw(st.integers(1, 2)))]
            texts = [each.text for each in negated]
            items.append(f"NOT {texts[0]}" if len(texts) == 1 else f"NOT ({', '.join(texts)})")
        known = list(bound)
        if known and often(draw, 5):
            items.append(f"BIND({pick(draw, (f'STR(?{known[0]})', '2', f'?{known[-1]}', f'?{known[-1]} + 1'))} AS ?w)")
            bound.append("w")
        if {"t", "u"} <= set(known) and often(draw, 2):
            items.append(f"FILTER(?t {pick(draw, ('<', '<=', '='))} ?u)")
        elif known and often(draw, 5):
            test = pick(draw, (f"?{known[0]} != :a", f"?{known[-1]} > 1", f"isIRI(?{known[0]})"))
            items.append(f"FILTER({test})")
        places = [name for name in bound if name != "w"] or bound
        heads = [self.head(draw, level, bound, places, times)]
        if often(draw, 6):
            heads.append(self.head(draw, level, bound, places, times))
        return f"{', '.join(heads)} :- {', '.join(draw(st.permutations(items)))} ."

    def head(self, draw: st.DrawFn, level: int, bound: Sequence[str], places: Sequence[str], times: Sequence[str]) -> str:
        atom = atom_of(draw, self.relations[level], bound or places)
        return f"{atom.text} AT ?{pick(draw, times)}" if times and often(draw, 2) else atom.text

    def reports(self, draw: st.DrawFn, prefix: str) -> list[tuple[str, str, bool, tuple[str, ...]]]:
        """REPORTs: text, label, whether its events have graphs, attributes."""
        found = []
        for number in range(draw(st.integers(1, 3))):
            name, arity = pick(draw, self.relations)
            terms = [pick(draw, ("?m", "?n")) if often(draw, 2) else ("?m", "?n")[place] for place in range(arity)]
            kind = pick(draw, ("", "", "NEW ", "ENDED ", "ENDED ", "ALL "))
            label = f"{prefix}{number}"
            text = f"{name}({', '.join(terms)})" if terms else name
            names = tuple(sorted({term[1:] for term in terms}))
            found.append((f"REPORT {kind}{text} AS {label} .", label, name.startswith(":"), names))
        return found


def lars_file(draw: st.DrawFn, prefix: str, events: Sequence[Atom]) -> tuple[str, list[tuple[str, str, bool, tuple[str, ...]]]]:
    """A file and its REPORTs."""
    resolution = pick(draw, (1000, 1000, 1000, 2000, 3000, 500))
    chosen = sorted(draw(st.lists(st.integers(0, len(RELATIONS) - 1), min_size=1, max_size=3, unique=True)))
    draft = FileDraft(resolution, [RELATIONS[number] for number in chosen], events)
    statements = [draft.rule(draw, level) for level in range(len(chosen))]
    statements += [draft.rule(draw, draw(st.integers(0, len(chosen) - 1))) for _ in range(draw(st.integers(0, 2)))]
    statements += ["Named(:a), Named(:c) .", "BACKGROUND :Kind, :part ."]
    if often(draw, 4):
        fact = atom_of(draw, pick(draw, draft.relations), ())
        statements.append(f"{fact.text} .")
    if often(draw, 6):
        statements.append(":p(:b, :c) .")
    if resolution != 1000 or often(draw, 3):
        statements.append(f"RESOLUTION {resolution} ms .")
    if often(draw, 4):
        statements.append(f"STREAM {pick(draw, ('ASSERTED', 'CLOSED'))} .")
    reports = draft.reports(draw, prefix)
    return "\n".join(draw(st.permutations([*statements, *(text for text, *_ in reports)]))), reports


def elements(draw: st.DrawFn) -> tuple[tuple[float, str], ...]:
    names, values = (":a", ":b", ":c"), (":a", ":b", ":c", "1", "2", "1.0")
    found: list[tuple[float, str]] = []
    time = pick(draw, (0.0, 1.0, -2.0, 7.0))
    for _ in range(draw(st.integers(1, 8))):
        time += pick(draw, (0.0, 0.5, 1.0, 1.0, 1.0, 2.0, 5.0))
        triples = []
        for _ in range(draw(st.integers(0, 3))):
            kind = draw(st.integers(0, 9))
            subject = pick(draw, names)
            if kind <= 3:
                triples.append(f"{subject} :p {pick(draw, values)} .")
            elif kind <= 6:
                triples.append(f"{subject} {pick(draw, (':q', ':q', ':part', ':d'))} {pick(draw, values)} .")
            else:
                triples.append(f"{subject} a {pick(draw, (':A', ':B', ':Kind', ':D'))} .")
        found.append((time, " ".join(triples)))
    return tuple(draw(st.permutations(found)))


@st.composite
def lars_programs(draw: st.DrawFn) -> LarsProgram:
    """A program; some parts of it may be empty."""
    first, reports = lars_file(draw, "L", EVENTS)
    rules = [RULES]
    queries = [QUERIES]
    later = ""
    if often(draw, 2):
        _, label, _, names = pick(draw, reports)
        variables = tuple(("x", "y")[number] for number in range(len(names)))
        pairs = ", ".join(f"?{name} AS ?{variable}" for name, variable in zip(names, variables, strict=True))
        read = Atom(f"EVENT {label}({pairs})" if pairs else f"EVENT {label}", variables)
        later, further = lars_file(draw, "M", (read, read, *EVENTS[:5]))
        reports = [*reports, *further]
    if often(draw, 2):
        _, label, _, names = pick(draw, reports)
        values = ", ".join(f"After.?{name} = {label}.?{name}" for name in names)
        clause = pick(draw, ("", f" and last Made within 3 s from {label}", f" and not Late within [0, 2 s] from {label}"))
        rules.append(f"rule After define After = [ [] a :After ] from {label}{clause}" + (f" with {values}" if values else ""))
    graphs = [label for _, label, has_graphs, _ in reports if has_graphs]
    if graphs and often(draw, 2):
        label = pick(draw, graphs)
        queries.append(f"REGISTER RSTREAM <Of> AS SELECT ?x ?y FROM WINDOW ON <{label}> [RANGE 3s STEP 2s] WHERE {{ ?x ?p ?y }}")
    return LarsProgram(first, later, "\n".join(rules), "\n".join(queries), pick(draw, DATALOG), pick(draw, BACKGROUND), elements(draw))
