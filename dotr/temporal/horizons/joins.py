"""Generated joins with horizons: forward from facts to conclusions, and backward from conclusions
to premises.

    join(facts, h, beyond, at, least, to)

A join binds an atom of a rule to each of `facts`, whose horizon is `h`, and looks up the other
atoms among static facts and held facts with a horizon greater than `beyond`. It calls
`to[horizon](conclusion)` with the minimum horizon of the premises. `at` is the index of the field
of a cell that is read: the horizon now (`NOW`) or at the last point (`BEFORE`). NOT of a fact is
true if that field is less than `least`.

`[?x, <p>, ?z] :- [?x, <p>, ?y], [?y, <q>, ?z]` from its first atom:

    def join(facts, h, beyond, at, least, to):
        for s, p, o in facts:
            if p != k0: continue
            for v_z, w0 in b1.get(o, NOTHING).items():
                m0 = w0[at]
                if m0 <= beyond: continue
                m1 = m0 if m0 < h else h
                to[m1]((s, k0, v_z))

Backward, the bound atom is the head, and `h` is `STATIC`. There, every premise may be found among
the static facts; but a derivation needs a held premise, and a fact may be both. Such a conclusion
gets the greatest horizon that one of the premises has as a held fact.

A rule that makes a property transitive extends paths by single steps, as in
`dotr.instant.datalog.closure.instant`: its conclusions are passed to `to.paths`, and where its
first premise is looked up, the cell's horizon as a step (`STEP`) is read.

Cost: that of the loops of `dotr.evaluation.joins`, and one comparison for each fact looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, Protocol, TypeAlias, cast

from dotr.evaluation.codegen import define
from dotr.evaluation.codegen.tree import Emit, Return
from dotr.evaluation.joins.compile import Row as JoinRow
from dotr.evaluation.joins.order import JoinItem, Side, ordered
from dotr.evaluation.triples.index import NO_EDGES, NO_ENDS, NO_TERMS, UNSEEN
from dotr.instant.datalog.closure.derivations import RuleWriter
from dotr.model.algebra import Slot, TriplePattern, Var
from dotr.model.datalog import DatalogRule, GroupAggregate, Not, RelationAtom
from dotr.model.terms import Term, Variable
from dotr.temporal.horizons.facts import NEVER_CELL, STATIC_CELL, STEP, HeldFacts, HorizonCell, StaticFacts
from dotr.temporal.horizons.rules import STATIC, Atom, WindowFact, WindowRule, contradiction_head

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
    """Receiver of the conclusions of joins, by horizon."""

    @property
    def paths(self) -> Conclusions:
        """The receiver of conclusions of transitive rules."""

    def __getitem__(self, horizon: int, /) -> Callable[[WindowFact], object]:
        """The function that receives conclusions with a horizon."""


class HorizonWriter(RuleWriter):
    """Writer of the code of one join with horizons, over the facts of one closure.

    `is_static_only`: the atoms read static facts alone, and no horizons. `is_path`: the rule makes
    a property transitive; `of_steps`: the atom that is looked up is its first premise, a step.
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
        self._field = f"at or {STEP}" if of_steps else "at"
        self._least = "STATIC"
        self._minima = 0
        self._may_be_all_static = True

    def function(self) -> Callable[..., Any]:
        """Compiles the source."""
        return define(self.source, "horizon join", "make", _NAMES)(*self.parameters.values())  # type: ignore[no-any-return]

    # --- the atom that the fact is bound to ---

    def begin_with(self, atom: Atom, *, horizon: str | None) -> None:
        """Opens the function and the loop that binds an atom to each of the facts.

        `horizon`: the name of the argument with the facts' horizon; None: the facts are no premises
        (a head, or an atom under NOT).
        """
        self.begin(_ARGUMENTS)
        if self._sink != "to":
            self.assign(self._sink, "to.paths")
        if horizon is not None:
            self._least, self._may_be_all_static = horizon, False
        if isinstance(atom, TriplePattern):
            self.loop("s, p, o", "facts", sized=False)
            if not self.hidden and self.known_term(atom.predicate) is None:
                self.skip_if(f"p.startswith({self.parameter('h', UNSEEN)})")
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
        self.skip_blank_predicate(pattern)
        subject, predicate, object = (self.name_of(slot) for slot in (pattern.subject, pattern.predicate, pattern.object))
        known, static = self.known_term(pattern.predicate), self._static.triples
        in_static = known is None or known in static.by_subject
        if subject and predicate and object:
            self._write_membership(f"({subject}, {predicate}, {object})", self.parameter("s", static.triples) if in_static else None)
        elif predicate and (subject or object):
            free = pattern.object if subject else pattern.subject
            access, end = ("by_subject", subject) if subject else ("by_object", object)
            held = f"{self._ends(access, known, predicate)}.get({end}, NOTHING)"
            self._loop_cells([free], f"{self._static_ends(access, known, predicate)}.get({end}, NO_TERMS)" if in_static else None, held)
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
        their cells. Static facts have no cells, so they are zipped with one constant cell.

            for v_x, w0 in chain(((v_x, zip(each, STATIC_CELLS)) for v_x, each in b3.items()),
                                 ((v_x, each.items()) for v_x, each in b2.items())):
                for v_y, w1 in w0:
        """
        others, held = self.temporary(), f"{self._ends('by_subject', known, predicate)}.items()"
        static = f"{self._static_ends('by_subject', known, predicate)}.items()" if in_static else None
        assert isinstance(pattern.subject, Var)
        name = self.bind(pattern.subject.name)
        if self._is_static_only:
            self.loop(f"{name}, {others}", static or "()", sized=False)
            self._loop_cells([pattern.object], others, "()")
        elif static is None:
            self.loop(f"{name}, {others}", held, sized=False)
            self._loop_cells([pattern.object], None, others)
        else:
            both = f"chain((({name}, zip(each, STATIC_CELLS)) for {name}, each in {static}), "
            self.loop(f"{name}, {others}", f"{both}(({name}, each.items()) for {name}, each in {held}))", sized=False)
            self._loop_items([pattern.object], others)

    def _write_free_predicate(self, pattern: TriplePattern, subject: str | None, object: str | None) -> None:
        index, held = self.parameter("b", self._static.triples), self.parameter("f", self._held)
        if subject:
            static = f"{index}.all_from({subject})" if self.hidden else f"{index}.edges_from.get({subject}, NO_EDGES)"
            slots: list[Slot] = [pattern.predicate, pattern.object]
            held_edges = f"{held}.edges_from.get({subject}, NOTHING)"
        elif object:
            static = f"{index}.all_to({object})" if self.hidden else f"{index}.edges_to.get({object}, NO_EDGES)"
            slots = [pattern.subject, pattern.predicate]
            held_edges = f"{held}.edges_to.get({object}, NOTHING)"
        else:
            static = index if self.hidden else f"{index}.visible()"
            slots = [pattern.subject, pattern.predicate, pattern.object]
            self._loop_tuples(slots, static, f"{held}.triples()")
            self._skip_hidden(pattern)
            return
        self._loop_tuples(slots, static, f"{held_edges}.items()")
        self._skip_hidden(pattern)

    def _skip_hidden(self, pattern: TriplePattern) -> None:
        if not self.hidden:
            self.skip_if(f"{self.name_of(pattern.predicate)}.startswith({self.parameter('h', UNSEEN)})")

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
        held = f"{self.background_parameter(f'held {atom.relation} {bound}', self._held.table(atom.relation, bound))}.get({key}, NOTHING)"
        table = self._static.table(atom.relation, bound) if in_static else None
        static = f"{self.background_parameter(f'static {atom.relation} {bound}', table)}.get({key}, NO_TERMS)" if in_static else None
        row = self.temporary()
        self._open_loop(row, static, held)
        for number, slot in enumerate(atom.slots):
            if number not in bound:
                assert isinstance(slot, Var)
                name = self.name_of(slot)  # already bound if the variable occurs in two columns
                if name is None:
                    self.assign(self.bind(slot.name), f"{row}[{number}]")
                else:
                    self.skip_if(f"{row}[{number}] != {name}")

    # --- loops over items and their cells ---

    def _loop_cells(self, slots: Sequence[Slot], static: str | None, held: str) -> None:
        target, checks = self._targets(slots)
        self._open_loop(target, static, held)
        for check in checks:
            self.skip_if(check)

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

    def _open_loop(self, target: str, static: str | None, held: str) -> None:
        """Opens a loop over static items and over a dictionary from held items to cells."""
        if self._is_static_only:
            self.loop(target, static or "()", sized=False)
            return
        cell = self.temporary()
        items = f"{held}.items()" if static is None else f"chain(zip({static}, STATIC_CELLS), {held}.items())"
        self.loop(f"{target}, {cell}", items, sized=False)
        self._lower_horizon(f"{cell}[{self._field}]")

    def _loop_items(self, slots: Sequence[Slot], items: str) -> None:
        """Opens a loop over pairs of an item and a cell."""
        target, checks = self._targets(slots)
        cell = self.temporary()
        self.loop(f"{target}, {cell}", items, sized=False)
        self._lower_horizon(f"{cell}[{self._field}]")
        for check in checks:
            self.skip_if(check)

    def _loop_tuples(self, slots: Sequence[Slot], static: str, held: str) -> None:
        target, checks = self._targets(slots)
        if self._is_static_only:
            self.loop(target, static, sized=False)
        else:
            cell = self.temporary()
            self.loop(f"{target}, {cell}", f"chain(zip({static}, STATIC_CELLS), {held})", sized=False)
            self._lower_horizon(f"{cell}[{self._field}]")
        for check in checks:
            self.skip_if(check)

    def _write_membership(self, fact: str, static: str | None, in_static: str | None = None) -> None:
        """Writes the look-up of a fact whose terms are bound.

        `static`: the container of static facts, if any; `in_static`: the fact's form in it.
        """
        if self._is_static_only:
            self.skip_if("True" if static is None else f"{in_static or fact} not in {static}")
            return
        cells, cell = self.parameter("f", self._held.cells.get), self.temporary()
        held = f"{cells}({fact}, NEVER_CELL)"
        self.assign(cell, held if static is None else f"STATIC_CELL if {in_static or fact} in {static} else {held}")
        self._lower_horizon(f"{cell}[{self._field}]")

    def _lower_horizon(self, horizon: str) -> None:
        """Writes the skip of a fact whose horizon is not beyond `beyond`, and the minimum of its
        horizon and those of the premises so far:

            m1 = w0[at]
            if m1 <= beyond: continue
            m2 = m1 if m1 < m0 else m0
        """
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
        """Writes NOT of one atom whose variables are bound (`dotr.temporal.horizons.closure`
        rewrites all NOTs to this form).

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
        """Writes the calls that pass on the rule's heads.

        `premises`: the positive atoms, read only where all may have been found among static facts;
        the greatest horizon of one of them as a held fact is then that of the conclusion.
        """
        if self._may_be_all_static:
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

    def conclusion(self, triple: str) -> Emit:
        """The call that passes on a triple with the minimum horizon of the premises."""
        return Emit(f"{self._sink}[{self._least}]", triple)

    def contradiction(self, row: str, rule: DatalogRule) -> Emit:
        """The call that passes on a contradiction with the minimum horizon of the premises."""
        return Emit(f"{self._sink}[{self._least}]", self._fact(contradiction_head(row, rule.body)))

    def _fact(self, atom: Atom) -> str:
        if isinstance(atom, TriplePattern):
            return f"({self.name_of(atom.subject)}, {self.name_of(atom.predicate)}, {self.name_of(atom.object)})"
        return f"({self.constant(atom.relation)}, {self._row(atom)})"

    def _row(self, atom: RelationAtom) -> str:
        names = [str(self.name_of(slot)) for slot in atom.slots]
        return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _greatest(cells: Mapping[WindowFact, HorizonCell]) -> Callable[[int, Sequence[WindowFact]], int]:
    """Function from a field of cells and some facts to the greatest of their horizons."""
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
    """Completes and compiles a join whose first atom is bound: the other items, then the
    conclusions.

    `rest`: the other items of the body. `premises`: as in `HorizonWriter.conclude_heads`. `names`,
    `rows`: variables and rows of the background's schema that bind them first.

    `?x <r> ?z` from `?x <p> ?y` of a window and `?y <q> ?z` of the window or the background:

    >>> from inspect import getsource
    >>> from dotr.model.algebra import Const
    >>> from dotr.evaluation.triples.index import TripleIndex
    >>> p, q, r = (TriplePattern(Var(s), Const(f"<{n}>"), Var(o)) for s, n, o in ("xpy", "yqz", "xrz"))
    >>> rule = WindowRule("r", (r,), (p, q))
    >>> writer = HorizonWriter(rule, StaticFacts(TripleIndex([("<b>", "<q>", "<c>")])), HeldFacts())
    >>> writer.begin_with(p, horizon="h")
    >>> print(getsource(write_join(writer, rule, [q], premises=())))
        def join(facts, h, beyond, at, least, to):
            for s, p, o in facts:
                if p != k0: continue
                for v_z, w0 in chain(zip(b3.get(o, NO_TERMS), STATIC_CELLS), b2.get(o, NOTHING).items()):
                    m0 = w0[at]
                    if m0 <= beyond: continue
                    m1 = m0 if m0 < h else h
                    to[m1]((s, k4, v_z))
    <BLANKLINE>
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
    """Function from terms of `bound` to whether the rule's body has a match among static facts.

    >>> from dotr.model.algebra import Const
    >>> from dotr.evaluation.triples.index import TripleIndex
    >>> p, q = (TriplePattern(Var(s), Const(f"<{n}>"), Var(o)) for s, n, o in ("xpy", "yqz"))
    >>> static = StaticFacts(TripleIndex([("<a>", "<p>", "<b>"), ("<b>", "<q>", "<c>")]))
    >>> test = exists_static(WindowRule("r", (), (p, q)), static, ["x"])
    >>> test("<a>"), test("<b>")
    (True, False)
    >>> from inspect import getsource
    >>> print(getsource(test))
        def join(v_x):
            for v_y in b2.get(v_x, NO_TERMS):
                for v_z in b5.get(v_y, NO_TERMS):
                    return True
            return False
    <BLANKLINE>
    """
    writer = HorizonWriter(rule, static, HeldFacts(), is_static_only=True)
    writer.begin(list(map(writer.bind, bound)))
    writer.write_steps(ordered(rule.body, bound, Side.BACKGROUND, static.triples))
    writer.add(Return("True"))
    writer.end([Return("False")])
    return writer.function()
