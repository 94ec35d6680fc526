"""Generated joins with horizons: from facts on to conclusions, and back from conclusions to what
supports them.

    join(facts, h, beyond, at, least, to)

A join binds an atom of a rule to each of `facts`, whose horizon is `h`, and looks up the other
atoms among static facts and facts with a horizon greater than `beyond`; `to[horizon](conclusion)`
gets the least horizon of the premises. `at` is the place in a cell that is read: the horizons of
now, or those of the last point, for derivations of then. NOT holds where the place holds less than
`least`.

`[?x, <p>, ?z] :- [?x, <p>, ?y], [?y, <q>, ?z]` from its first atom:

    def join(facts, h, beyond, at, least, to):
        for s, p, o in facts:
            if p != k0: continue
            for v_z, w0 in b1.get(o, NOTHING).items():
                m0 = w0[at]
                if m0 <= beyond: continue
                m1 = m0 if m0 < h else h
                to[m1]((s, k0, v_z))

Backward, the atom is the head, and `h` that of static facts. Where all premises may be static, the
conclusion has the greatest horizon that one of them has besides, since one must not be static.

A rule that makes a property transitive extends paths by single steps, as in
`dotr.datalog.transitive`: what it concludes goes to `paths`, and where the first of its premises is
looked up, the cell's horizon as a step is read.

Cost: that of the loops of `dotr.joins`, and one comparison for each fact looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, Protocol, TypeAlias, cast

from dotr.codegen import define
from dotr.codegen.tree import Emit, Return
from dotr.datalog.derivations import RuleWriter
from dotr.horizons.facts import NEVER_CELL, STATIC_CELL, STEP, HeldFacts, HorizonCell, StaticFacts
from dotr.horizons.rules import STATIC, Atom, WindowFact, WindowRule
from dotr.joins.compile import Row as JoinRow
from dotr.joins.order import JoinItem, Side, ordered
from dotr.model.algebra import Slot, TriplePattern, Var
from dotr.model.datalog import DatalogRule, GroupAggregate, Not, RelationAtom
from dotr.model.terms import Term, Variable
from dotr.store.triples import HIDDEN, NO_EDGES, NO_ENDS, NO_TERMS

HorizonJoin: TypeAlias = Callable[[Iterable[WindowFact], int, int, int, int, "Conclusions"], None]

_ARGUMENTS: Final = ("facts", "h", "beyond", "at", "least", "to")
_NAMES: Final[dict[str, object]] = {
    "chain": chain,
    "zip": zip,
    "NO_EDGES": NO_EDGES,
    "NO_ENDS": NO_ENDS,
    "NO_TERMS": NO_TERMS,
    "NOTHING": {},
    "STATIC": STATIC,
    "STATIC_CELL": STATIC_CELL,
    "STATIC_CELLS": repeat(STATIC_CELL),
    "NEVER_CELL": NEVER_CELL,
}


class Conclusions(Protocol):
    """Conclusions of joins, by horizon."""

    @property
    def paths(self) -> Conclusions:
        """Conclusions of transitive rules."""

    def __getitem__(self, horizon: int, /) -> Callable[[WindowFact], object]:
        """The function that takes a conclusion with a horizon."""


class HorizonWriter(RuleWriter):
    """Writer of one join with horizons over the facts of one closure.

    `is_static_only`: the atoms read static facts alone, and no horizons. `is_path`: the rule makes
    a property transitive; `of_steps`: the atoms that are looked up are steps.
    """

    def __init__(
        self,
        rule: WindowRule,
        static: StaticFacts,
        held: HeldFacts,
        *,
        is_static_only: bool = False,
        is_path: bool = False,
        of_steps: bool = False,
    ) -> None:
        super().__init__("join", cast(DatalogRule, rule), 0, index=static.triples)
        self._static = static
        self._held = held
        self._is_static_only = is_static_only
        self._sink = "paths" if is_path else "to"
        self._place = f"at or {STEP}" if of_steps else "at"
        self._least = "STATIC"
        self._minima = 0
        self._none_held = True

    def function(self) -> Callable[..., Any]:
        """Compiles the source."""
        return define(self.source, "horizon join", "make", _NAMES)(*self.parameters.values())  # type: ignore[no-any-return]

    # --- the atom that the fact is bound to ---

    def begin_with(self, atom: Atom, *, horizon: str | None) -> None:
        """Opens the function and binds an atom to each of the facts.

        `horizon`: the name of the facts' horizon; None: the facts are no premises.
        """
        self.begin(_ARGUMENTS)
        if self._sink != "to":
            self.assign(self._sink, "to.paths")
        if horizon is not None:
            self._least, self._none_held = horizon, False
        if isinstance(atom, TriplePattern):
            self.loop("s, p, o", "facts", sized=False)
            if not self.hidden and self.known_term(atom.predicate) is None:
                self.skip_if(f"p.startswith({self.parameter('h', HIDDEN)})")
            self._bind_slots(zip((atom.subject, atom.predicate, atom.object), "spo", strict=True))
        else:
            columns = [f"c{number}" for number in range(len(atom.slots))]
            self.loop(f"_, ({', '.join(columns)}{',' if columns else ''})" if columns else "_", "facts", sized=False)
            self._bind_slots(zip(atom.slots, columns, strict=True))

    def _bind_slots(self, slots: Iterable[tuple[Slot, str]]) -> None:
        for slot, name in slots:
            bound = self.name_of(slot)
            if bound is not None:
                self.skip_if(f"{name} != {bound}")
            elif isinstance(slot, Var):
                self.names[slot.name] = name

    # --- look-ups ---

    def write_pattern(self, pattern: TriplePattern, side: Side) -> None:
        """Writes the matches of a triple pattern, each with its cell.

        `?y <q> ?z` with `?y` bound, and with both bound:

            for v_z, w0 in t0.get(v_y, NOTHING).items():
            w0 = STATIC_CELL if (v_y, k1, v_z) in s2 else f3((v_y, k1, v_z), NEVER_CELL)
        """
        subject, predicate, object = (self.name_of(slot) for slot in (pattern.subject, pattern.predicate, pattern.object))
        known, static = self.known_term(pattern.predicate), self._static.triples
        in_static = known is None or known in static.by_subject
        if subject and predicate and object:
            self._write_membership(f"({subject}, {predicate}, {object})", self.parameter("s", static.triples) if in_static else None)
        elif predicate and (subject or object):
            free = pattern.object if subject else pattern.subject
            access, end = ("by_subject", subject) if subject else ("by_object", object)
            mine = f"{self._ends(access, known, predicate)}.get({end}, NOTHING)"
            self._loop_cells([free], f"{self._static_ends(access, known, predicate)}.get({end}, NO_TERMS)" if in_static else None, mine)
        elif predicate:
            self._loop_subjects(pattern, known, predicate, in_static=in_static)
        else:
            self._write_free_predicate(pattern, subject, object)

    def _ends(self, access: str, known: Term | None, predicate: str) -> str:
        if known is None:
            return f"{self.parameter('t', getattr(self._held, access))}.get({predicate}, NOTHING)"
        return self.background_parameter(f"held {access} {predicate}", self._held.ends(known, by_subject=access == "by_subject"))

    def _static_ends(self, access: str, known: Term | None, predicate: str) -> str:
        tables = getattr(self._static.triples, access)
        if known is None:
            return f"{self.parameter('b', tables)}.get({predicate}, NO_ENDS)"
        return self.background_parameter(f"static {access} {predicate}", tables.get(known, NO_ENDS))

    def _loop_subjects(self, pattern: TriplePattern, known: Term | None, predicate: str, *, in_static: bool) -> None:
        """Writes loops over both ends of the triples of a predicate: subjects, then objects with
        their cells, those of static facts by `zip` with one cell.
        """
        others, mine = self.temporary(), f"{self._ends('by_subject', known, predicate)}.items()"
        static = f"{self._static_ends('by_subject', known, predicate)}.items()" if in_static else None
        assert isinstance(pattern.subject, Var)
        name = self.bind(pattern.subject.name)
        if self._is_static_only:
            self.loop(f"{name}, {others}", static or "()", sized=False)
            self._loop_cells([pattern.object], others, "()")
        elif static is None:
            self.loop(f"{name}, {others}", mine, sized=False)
            self._loop_cells([pattern.object], None, others)
        else:
            both = f"chain((({name}, zip(each, STATIC_CELLS)) for {name}, each in {static}), "
            self.loop(f"{name}, {others}", f"{both}(({name}, each.items()) for {name}, each in {mine}))", sized=False)
            self._loop_items([pattern.object], others)

    def _write_free_predicate(self, pattern: TriplePattern, subject: str | None, object: str | None) -> None:
        index, held = self.parameter("b", self._static.triples), self.parameter("f", self._held)
        if subject:
            static = f"{index}.all_from({subject})" if self.hidden else f"{index}.edges_from.get({subject}, NO_EDGES)"
            slots: list[Slot] = [pattern.predicate, pattern.object]
            mine = f"{held}.edges_from.get({subject}, NOTHING)"
        elif object:
            static = f"{index}.all_to({object})" if self.hidden else f"{index}.edges_to.get({object}, NO_EDGES)"
            slots = [pattern.subject, pattern.predicate]
            mine = f"{held}.edges_to.get({object}, NOTHING)"
        else:
            static = index if self.hidden else f"{index}.visible()"
            slots = [pattern.subject, pattern.predicate, pattern.object]
            self._loop_tuples(slots, static, f"{held}.triples()")
            self._skip_hidden(pattern)
            return
        self._loop_tuples(slots, static, f"{mine}.items()")
        self._skip_hidden(pattern)

    def _skip_hidden(self, pattern: TriplePattern) -> None:
        if not self.hidden:
            self.skip_if(f"{self.name_of(pattern.predicate)}.startswith({self.parameter('h', HIDDEN)})")

    def write_relation(self, atom: RelationAtom) -> None:
        """Writes the matches of an atom of a relation, by the columns that are bound.

        `R(?x, ?y)` with `?x` bound:

            for w1, w0 in t0.get(v_x, NOTHING).items():
                v_y = w1[1]
        """
        names = [self.name_of(slot) for slot in atom.slots]
        bound = tuple(number for number, name in enumerate(names) if name is not None)
        in_static = atom.relation in self._static.rows
        if len(bound) == len(names):
            static = self.parameter("s", self._static.rows[atom.relation]) if in_static else None
            self._write_membership(self._fact(atom), static, self._row(atom))
            return
        key = "()" if not bound else str(names[bound[0]]) if len(bound) == 1 else f"({', '.join(str(names[n]) for n in bound)})"
        mine = f"{self.background_parameter(f'held {atom.relation} {bound}', self._held.table(atom.relation, bound))}.get({key}, NOTHING)"
        table = self._static.table(atom.relation, bound) if in_static else None
        static = f"{self.background_parameter(f'static {atom.relation} {bound}', table)}.get({key}, NO_TERMS)" if in_static else None
        row = self.temporary()
        self._open_loop(row, static, mine)
        for number, slot in enumerate(atom.slots):
            if number not in bound:
                assert isinstance(slot, Var)
                name = self.name_of(slot)  # a variable may stand in two columns
                if name is None:
                    self.assign(self.bind(slot.name), f"{row}[{number}]")
                else:
                    self.skip_if(f"{row}[{number}] != {name}")

    # --- loops over items and their cells ---

    def _loop_cells(self, slots: Sequence[Slot], static: str | None, mine: str) -> None:
        target, check = self._targets(slots)
        self._open_loop(target, static, mine)
        for each in check:
            self.skip_if(each)

    def _targets(self, slots: Sequence[Slot]) -> tuple[str, list[str]]:
        targets, checks = [], []
        for slot in slots:
            name = self.name_of(slot)
            if name is None and isinstance(slot, Var):
                targets.append(self.bind(slot.name))
            else:
                targets.append(self.temporary())
                checks.append(f"{targets[-1]} != {name}")
        return targets[0] if len(targets) == 1 else f"({', '.join(targets)})", checks

    def _open_loop(self, target: str, static: str | None, mine: str) -> None:
        """Opens a loop over static items and over a dictionary from items to cells."""
        if self._is_static_only:
            self.loop(target, static or "()", sized=False)
            return
        cell = self.temporary()
        items = f"{mine}.items()" if static is None else f"chain(zip({static}, STATIC_CELLS), {mine}.items())"
        self.loop(f"{target}, {cell}", items, sized=False)
        self._lower(f"{cell}[{self._place}]")

    def _loop_items(self, slots: Sequence[Slot], items: str) -> None:
        """Opens a loop over pairs of an item and a cell."""
        target, checks = self._targets(slots)
        cell = self.temporary()
        self.loop(f"{target}, {cell}", items, sized=False)
        self._lower(f"{cell}[{self._place}]")
        for check in checks:
            self.skip_if(check)

    def _loop_tuples(self, slots: Sequence[Slot], static: str, mine: str) -> None:
        target, checks = self._targets(slots)
        if self._is_static_only:
            self.loop(target, static, sized=False)
        else:
            cell = self.temporary()
            self.loop(f"{target}, {cell}", f"chain(zip({static}, STATIC_CELLS), {mine})", sized=False)
            self._lower(f"{cell}[{self._place}]")
        for check in checks:
            self.skip_if(check)

    def _write_membership(self, fact: str, static: str | None, in_static: str | None = None) -> None:
        if self._is_static_only:
            self.skip_if("True" if static is None else f"{in_static or fact} not in {static}")
            return
        cells, cell = self.parameter("f", self._held.cells.get), self.temporary()
        mine = f"{cells}({fact}, NEVER_CELL)"
        self.assign(cell, mine if static is None else f"STATIC_CELL if {in_static or fact} in {static} else {mine}")
        self._lower(f"{cell}[{self._place}]")

    def _lower(self, horizon: str) -> None:
        """Passes over a fact that does not reach beyond; the join goes on with the least horizon."""
        name = f"m{self._minima}"
        self._minima += 1
        self.assign(name, horizon)
        self.skip_if(f"{name} <= beyond")
        if self._least != "STATIC":
            lower = f"m{self._minima}"
            self._minima += 1
            self.assign(lower, f"{name} if {name} < {self._least} else {self._least}")
            name = lower
        self._least = name

    # --- NOT, and conclusions ---

    def lower_stratum_item(self, item: Not | GroupAggregate) -> None:
        """Writes NOT of an atom whose variables are bound; `dotr.horizons.negation` makes all NOTs so.

        `NOT [?s, <broken>, ?w]`, static or held:

            if (v_s, k0, v_w) in s1 or f2((v_s, k0, v_w), NEVER_CELL)[at] >= least: continue
        """
        assert isinstance(item, Not)
        atom = cast(Atom, item.body[0])
        fact = self._fact(atom)
        if isinstance(atom, TriplePattern):
            static = f"{fact} in {self.parameter('s', self._static.triples.triples)}"
        else:
            static = f"{self._row(atom)} in {self.parameter('s', self._static.rows.get(atom.relation, ()))}"
        self.skip_if(f"{static} or {self.parameter('f', self._held.cells.get)}({fact}, NEVER_CELL)[at] >= least")

    def conclude_heads(self, rule: WindowRule, premises: Collection[Atom]) -> None:
        """Writes the pushes of a rule's heads.

        `premises`: the positive atoms; where none is known not to be static, one that holds besides
        decides.
        """
        if self._none_held:
            facts = ", ".join(map(self._fact, premises))
            most = self.parameter("f", _greatest(self._held.cells))
            if self._least == "STATIC":
                self.assign("m", f"{most}(at, ({facts},))")
            else:
                self.assign("m", f"{self._least} if {self._least} < STATIC else {most}(at, ({facts},))")
            self.skip_if("m <= beyond")
            self._least = "m"
        for head in rule.head:
            if isinstance(head, TriplePattern):
                self._push(cast(DatalogRule, rule), head)
            else:
                self.add(Emit(f"{self._sink}[{self._least}]", self._fact(head)))

    def conclusion(self, head: TriplePattern) -> Emit:
        """The push of a head with the least horizon of the premises."""
        return Emit(f"{self._sink}[{self._least}]", self._fact(head))

    def _fact(self, atom: Atom) -> str:
        if isinstance(atom, TriplePattern):
            return f"({self.name_of(atom.subject)}, {self.name_of(atom.predicate)}, {self.name_of(atom.object)})"
        return f"({self.constant(atom.relation)}, {self._row(atom)})"

    def _row(self, atom: RelationAtom) -> str:
        names = [str(self.name_of(slot)) for slot in atom.slots]
        return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _greatest(cells: Mapping[WindowFact, HorizonCell]) -> Callable[[int, Sequence[WindowFact]], int]:
    """Function that gives the greatest horizon of some facts at a place of their cells."""
    return lambda at, facts: max(cells.get(fact, NEVER_CELL)[at] for fact in facts)


def write_join(
    writer: HorizonWriter,
    rule: WindowRule,
    rest: Sequence[JoinItem],
    *,
    premises: Collection[Atom],
    names: Sequence[Variable] = (),
    rows: tuple[JoinRow, ...] = (),
) -> HorizonJoin:
    """Ends a join that begins with a bound atom: the other items, then the conclusions.

    `names`, `rows`: rows of the background's schema that bind variables before.
    """
    if len(rows) == 1:
        for name, term in zip(names, rows[0], strict=True):
            assert term is not None
            writer.bind_constant(name, term)
    elif names or rows:
        writer.loop_over_rows(names, rows)
    writer.write_steps(ordered(rest, writer.names, Side.BOTH, writer.index))
    writer.conclude_heads(rule, premises)
    writer.end()
    return writer.function()


def exists_static(rule: WindowRule, static: StaticFacts, bound: Sequence[Variable]) -> Callable[..., bool]:
    """Test of a body over static facts alone, with some variables bound.

    >>> from dotr.model.algebra import Const
    >>> from dotr.store.triples import TripleIndex
    >>> p, q = (TriplePattern(Var(s), Const(f"<{n}>"), Var(o)) for s, n, o in ("xpy", "yqz"))
    >>> static = StaticFacts(TripleIndex([("<a>", "<p>", "<b>"), ("<b>", "<q>", "<c>")]))
    >>> test = exists_static(WindowRule("r", (), (p, q)), static, ["x"])
    >>> test("<a>"), test("<b>")
    (True, False)
    """
    writer = HorizonWriter(rule, static, HeldFacts(), is_static_only=True)
    writer.begin(list(map(writer.bind, bound)))
    writer.write_steps(ordered(rule.body, bound, Side.BACKGROUND, static.triples))
    writer.add(Return("True"))
    writer.end([Return("False")])
    return writer.function()
