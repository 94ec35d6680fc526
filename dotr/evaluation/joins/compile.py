"""Joins of triple patterns over the pair (background, delta), as generated Python.

    join = compile_join(body, bound, sides, projection)
    rows = join(background, delta, *bound_terms)        # a list of tuples, one for each match

- `body`: triple patterns, triple terms, `FilterItem`s and `Bind`s, in any order.
- `bound`: variables whose terms the caller passes, never None.
- `sides`: the index that all triple patterns of the body read, or that of each, in the order of the
  body.
- `projection`: the columns of a row. A variable that nothing binds is None in every row; an empty
  projection gives `()` for every match.
- `index`: the background, if it is known and will not change; sizes and tables are then resolved at
  compile time. The join is called with the same index.
- `hidden`: whether variable predicates match hidden predicates (`dotr.evaluation.triples.index`),
  as in rule sets; in queries they do not.

Idea: nested loops, ordered by `dotr.evaluation.joins.order` and built with
`dotr.evaluation.codegen`. Invariant (bag semantics): the multiplicity of a row is the number of its
matches, provided the two indexes share no triple, since BOTH reads one after the other. A
`FilterItem` that errs is false. A `Bind` that errs gives no row (SPARQL's `Extend`, which differs,
is in `dotr.evaluation.joins.branch_loops`); a `Bind` to a bound variable compares terms. An unbound
variable is None in conditions (`BOUND`). Semi-naive use: with one pattern on DELTA, those before it
on BACKGROUND and those after it on BOTH, for each pattern in turn, every match that uses a delta
triple is found exactly once. Cost: a call costs its matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import Any, Final, TypeAlias, assert_never

from dotr.evaluation.codegen import LoopBuilder, WorkCount, define
from dotr.evaluation.codegen.tree import Block
from dotr.evaluation.expressions import condition, evaluator
from dotr.evaluation.joins.order import JoinItem, JoinStep, SelectivePath, Side, Sides, ordered
from dotr.evaluation.joins.paths import NOT_SPENT, added_pairs, counting, path_ends, path_test, uncounted
from dotr.evaluation.triples.index import NO_EDGES, NO_ENDS, NO_TERMS, TripleIndex
from dotr.model.algebra import Const, Expression, PathPattern, Repeat, Slot, TermPattern, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, GroupAggregate, Not, RelationAtom
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables

__all__ = ["JoinFunction", "JoinWriter", "Row", "Side", "compile_join", "write_join"]

Row: TypeAlias = tuple[Term | None, ...]
JoinFunction: TypeAlias = Callable[..., list[Row]]

_NAMES: Final = {"chain": chain, "NO_EDGES": NO_EDGES, "NO_ENDS": NO_ENDS, "NO_TERMS": NO_TERMS}


def compile_join(
    body: Sequence[JoinItem],
    bound: Sequence[Variable],
    sides: Sides,
    projection: Sequence[Variable],
    *,
    index: TripleIndex | None = None,
    hidden: bool = False,
) -> JoinFunction:
    """Compiles a join to a function; parameters as in the module's docstring.

    >>> from dotr.model.algebra import Var
    >>> sensor = TriplePattern(Var("read"), Const("<from>"), Var("sensor"))
    >>> room = TriplePattern(Var("sensor"), Const("<in>"), Var("room"))
    >>> join = compile_join([sensor, room], [], [Side.DELTA, Side.BOTH], ["read", "room"])
    >>> join(TripleIndex([("<s1>", "<in>", "<A>"), ("<s2>", "<in>", "<B>")]), TripleIndex([("<r>", "<from>", "<s1>")]))
    [('<r>', '<A>')]
    """
    function: JoinFunction = write_join(body, bound, sides, projection, index=index, hidden=hidden).function()
    return function


def write_join(
    body: Sequence[JoinItem],
    bound: Sequence[Variable],
    sides: Sides,
    projection: Sequence[Variable],
    *,
    index: TripleIndex | None = None,
    hidden: bool = False,
) -> JoinWriter:
    """Writes a join as source text and parameters, without compiling; parameters as for
    `compile_join`.

    >>> from dotr.model.algebra import Var
    >>> sensor = TriplePattern(Var("read"), Const("<from>"), Var("sensor"))
    >>> room = TriplePattern(Var("sensor"), Const("<in>"), Var("room"))
    >>> writer = write_join([room, sensor], [], [Side.BOTH, Side.DELTA], ["read", "room"])
    >>> print(writer.source)
    def make(k0, k1):
        def join(background, delta):
            rows = []
            append = rows.append
            d0 = delta.by_subject.get(k0)
            if d0 is None: return rows
            b1 = background.by_subject.get(k1, NO_ENDS)
            d2 = delta.by_subject.get(k1)
            for v_read, w0 in d0.items():
                for v_sensor in w0:
                    for v_room in (b1.get(v_sensor, NO_TERMS) if d2 is None else b1.get(v_sensor, NO_TERMS) + d2.get(v_sensor, NO_TERMS)):
                        append((v_read, v_room))
            return rows
        return join
    <BLANKLINE>
    >>> writer.parameters
    {'k0': '<from>', 'k1': '<in>'}
    """
    writer = JoinWriter("join", leave="return rows", index=index, hidden=hidden)
    writer.begin(["background", "delta", *(writer.bind(variable) for variable in bound)])
    writer.collect_rows()
    writer.write_steps(ordered(body, bound, sides, index))
    writer.emit("append", writer.row(projection))
    writer.end()
    return writer


class JoinWriter(LoopBuilder):
    """A builder of a join's nested loops, step by step.

    `index`: the background, if known at compile time. `hidden`: whether variable predicates match
    hidden predicates.
    """

    def __init__(
        self, name: str, *, leave: str, index: TripleIndex | None = None, hidden: bool = False, count: WorkCount | None = None
    ) -> None:
        super().__init__(name, leave=leave, count=count)
        self.index = index
        self.hidden = hidden
        self.spent = NOT_SPENT
        self._visible: set[Variable] = set()  # variables bound as a predicate, so never to a hidden one

    def function(self) -> Callable[..., Any]:
        """Compiles the source. Its type is that of the arguments given to `begin` and of the
        result.
        """
        return _factory(self.source, self.name)(*self.parameters.values())

    def collect_rows(self) -> None:
        """Writes the list of rows and `append`, its bound method."""
        self.assign("rows", "[]")
        self.assign("append", "rows.append")

    def row(self, projection: Sequence[Variable]) -> str:
        """The tuple expression of a row."""
        names = [self.read(variable) for variable in projection]
        return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"

    def loop_over_rows(self, names: Sequence[Variable], rows: tuple[Row, ...]) -> None:
        """Writes a loop over constant rows."""
        self.loop(self.targets(names), self.parameter("r", rows))

    def targets(self, names: Sequence[Variable]) -> str:
        """The assignment targets that unpack a row into variables."""
        return "".join([f"{self.bind(name)}, " for name in names]).rstrip() or "_"

    def known_term(self, slot: Slot) -> Term | None:
        """The term of a slot, if known at compile time."""
        return slot.term if isinstance(slot, Const) else self._known_terms.get(slot.name)

    def name_of(self, slot: Slot) -> str | None:
        """The Python name of a slot's term; None for a variable that is not bound yet."""
        return self.constant(slot.term) if isinstance(slot, Const) else self.names.get(slot.name)

    # --- steps ---

    def write_steps(self, steps: Sequence[JoinStep]) -> None:
        """Writes steps in their order, each inside the loops of the preceding ones."""
        for step in steps:
            match step:
                case FilterItem(test):
                    self.require(f"{self.parameter('t', _condition(test))}({self._arguments(test)})")
                case Bind(expression, variable):
                    value = f"{self.parameter('e', _evaluator(expression))}({self._arguments(expression)})"
                    if variable in self.names:
                        self.skip_if(f"{value} != {self.names[variable]}")
                    else:
                        name = self.bind(variable)
                        self.assign(name, value)
                        self.skip_if(f"{name} is None")
                case (TriplePattern() as pattern, Side() as side):
                    self.write_pattern(pattern, side)
                case (PathPattern() as path, Side() as side):
                    self.write_path(path, side)
                case (RelationAtom() as atom, Side()):
                    self.write_relation(atom)
                case TermPattern():
                    self.write_term_pattern(step)
                case Not() | GroupAggregate():
                    self.lower_stratum_item(step)
                case _:
                    assert_never(step)

    def write_term_pattern(self, pattern: TermPattern) -> None:
        """Destructures a bound triple term, or builds one of bound parts.

        Parts that form no triple term (a literal as the subject) result in a text that is no term
        of any graph.

        `?t` bound, `<<( ?s <p> ?o )>>` with `?o` bound:

            if v_t[:2] != '<<': continue
            w0, w1, w2 = v_t[4:-4].split(' ', 2)
            if w1 != k0: continue
            if w2 != v_o: continue
        """
        slots = (pattern.subject, pattern.predicate, pattern.object)
        term, parts = self.name_of(pattern.term), [self.name_of(slot) for slot in slots]
        if term is None:
            self.assign(self.bind(pattern.term.name), f"f'<<( {{{parts[0]}}} {{{parts[1]}}} {{{parts[2]}}} )>>'")
        elif None not in parts:
            self.skip_if(f"{term} != f'<<( {{{parts[0]}}} {{{parts[1]}}} {{{parts[2]}}} )>>'")
        else:
            self.skip_if(f"{term}[:2] != '<<'")
            targets = [self.temporary() for _ in slots]
            self.assign(", ".join(targets), f"{term}[4:-4].split(' ', 2)")
            for target, slot in zip(targets, slots, strict=True):
                name = self.name_of(slot)
                if name is not None:
                    self.skip_if(f"{target} != {name}")
                elif not isinstance(slot, Const):
                    self.names[slot.name] = target

    def lower_stratum_item(self, step: Not | GroupAggregate) -> None:
        """Writes a NOT or an AGGREGATE; the override for rules is in
        `dotr.instant.datalog.closure.derivations`."""
        raise TypeError(f"{step} in the join of a query")

    def write_relation(self, atom: RelationAtom) -> None:
        """Writes the matches of an atom of a relation; the override is in
        `dotr.temporal.horizons`."""
        raise TypeError(f"{atom} in a join of triples")

    def _arguments(self, expression: Expression) -> str:
        return ", ".join(self.read(variable) for variable in free_variables(expression))

    def write_pattern(self, pattern: TriplePattern, side: Side) -> None:
        """Writes the matches of a pattern on a side, looked up by the bound slots.

        `?x <p> ?y` on the delta, by the variables that are bound:

        both        if (v_x, k0, v_y) not in s0: continue
        `?x`        for v_y in d0.get(v_x, NO_TERMS):
        neither     for v_x, w0 in d0.items(): for v_y in w0:
        """
        self.skip_blank_predicate(pattern)
        subject, predicate, object = (self.name_of(slot) for slot in (pattern.subject, pattern.predicate, pattern.object))
        fixed = self.known_term(pattern.predicate)
        if side is Side.BOTH and fixed is not None and self.index is not None and fixed not in self.index.by_subject:
            side = Side.DELTA
        if subject and predicate and object:
            self._test_membership(f"({subject}, {predicate}, {object})", side)
        elif predicate and subject:
            self._loop_ends("by_subject", predicate, subject, pattern.object, side, fixed, self.known_term(pattern.subject))
        elif predicate and object:
            self._loop_ends("by_object", predicate, object, pattern.subject, side, fixed, self.known_term(pattern.object))
        elif predicate:
            self._loop_pairs(predicate, pattern, side, fixed)
        elif subject and object:
            links = f"{{}}.all_links({subject}, {object})" if self.hidden else f"{{}}.links({subject}, {object})"
            self._loop([pattern.predicate], self._lookup(side, links))
        elif subject:
            edges = f"{{}}.all_from({subject})" if self.hidden else f"{{}}.edges_from.get({subject}, NO_EDGES)"
            self._loop([pattern.predicate, pattern.object], self._lookup(side, edges), looked_up=not self.hidden)
        elif object:
            edges = f"{{}}.all_to({object})" if self.hidden else f"{{}}.edges_to.get({object}, NO_EDGES)"
            self._loop([pattern.subject, pattern.predicate], self._lookup(side, edges), looked_up=not self.hidden)
        else:
            sides = [Side.BACKGROUND, Side.DELTA] if side is Side.BOTH else [side]
            triples = ", ".join(self._index_name(each) + ("" if self.hidden else ".visible()") for each in sides)
            self._loop([pattern.subject, pattern.predicate, pattern.object], f"chain({triples})", sized=False)

    def write_path(self, pattern: PathPattern, side: Side) -> None:
        """Writes the matches of a path: a walk from a bound end, a test where both are bound, and
        on the delta the pairs that it adds.

        `?x <p>+ ?y` of both sides, with `?x` bound:

        walk1 = p0(indexes=(background, delta,), spend=spend0)
        for v_y in walk1(v_x):
        """
        subject, object = (self.name_of(slot) for slot in (pattern.subject, pattern.object))
        indexes = [self._index_name(each) for each in (Side.BACKGROUND, Side.DELTA) if side in (each, Side.BOTH)]
        arguments = f"indexes=({', '.join(indexes)},), spend={self._spend}"
        if side is Side.DELTA:
            pairs = self.parameter("p", partial(added_pairs, pattern.path))
            kept = ", ".join(f"({self._terms_near(pattern, slot)})" for slot in (pattern.subject, pattern.object))
            both = f"background={self._index_name(Side.BACKGROUND)}, delta=delta, spend={self._spend}, kept=({kept})"
            self._loop([pattern.subject, pattern.object], f"{pairs}({both})", sized=False, counted=False)
        elif subject and object and isinstance(pattern.path, Repeat):
            test = self.table("connected", f"{self.parameter('p', partial(path_test, pattern.path))}({arguments})")
            self.require(f"{test}({subject}, {object})")
        else:
            start, end = (subject, pattern.object) if subject else (object, pattern.subject)
            walk = self.parameter("p", partial(path_ends, pattern.path, forward=subject is not None))
            self._loop([end], f"{self.table('walk', f'{walk}({arguments})')}({start})", sized=False, counted=False)

    def _terms_near(self, path: PathPattern, end: Slot) -> str:
        """The tables, for each pattern joined with an end of a path, that have the end's terms."""
        groups = [f"({{{self.constant(end.term)}}},), "] if isinstance(end, Const) else []
        for pattern, side in path.near if isinstance(path, SelectivePath) else ():
            if end in (pattern.subject, pattern.object) and isinstance(pattern.predicate, Const):
                access, fixed = "by_subject" if pattern.subject == end else "by_object", pattern.predicate.term
                tables = [self._background_table(access, self.constant(fixed), fixed)] if side is not Side.DELTA else []
                if side is not Side.BACKGROUND:
                    tables.append(self.table("d", f"delta.{access}.get({self.constant(fixed)}, NO_ENDS)"))
                groups.append(f"({', '.join(tables)},), ")
        return "".join(groups)

    @cached_property
    def _spend(self) -> str:
        """The name of the function that counts the work of walks."""
        if self._count is None:
            return self.parameter("p", uncounted)
        return self.table("spend", f"{self.parameter('p', counting(self._count))}(rows, {self.spent})")

    @contextmanager
    def branch(self, fork: list[Block]) -> Iterator[None]:
        """Opens a branch of a fork; what it tests is not tested in others."""
        visible = set(self._visible)
        with super().branch(fork):
            yield
        self._visible = visible

    def skip_blank_predicate(self, pattern: TriplePattern) -> None:
        """Writes the test that a predicate bound by a node is no blank node, unless hidden
        predicates match: `?r <onProperty> ?p . ?x ?p ?y` is

            for v_p in d0.get(v_r, NO_TERMS):
                if v_p[0] == '_': continue
        """
        slot = pattern.predicate
        if self.hidden or not isinstance(slot, Var) or slot.name in self._visible:
            return
        if slot.name in self.names:
            self.skip_if(f"{self.name_of(slot)}[0] == '_'")
        self._visible.add(slot.name)

    def _lookup(self, side: Side, lookup: str) -> str:
        """The expression of a list that is looked up in one index, or in both and concatenated."""
        if side is Side.BOTH:
            return f"{lookup.format(self._index_name(Side.BACKGROUND))} + {lookup.format('delta')}"
        return lookup.format(self._index_name(side))

    def _index_name(self, side: Side) -> str:
        """The Python name of the index of one side."""
        if side is Side.BACKGROUND and self.index is not None:
            return self.background_parameter("background", self.index)
        return side.value

    def _loop(self, slots: Sequence[Slot], items: str, *, sized: bool = True, looked_up: bool = False, counted: bool = True) -> None:
        """Writes a loop that binds free slots and compares bound ones.

        `?p ?x` of the edges from `?x`:

        for v_p, w0 in delta.edges_from.get(v_x, NO_EDGES):
            if w0 != v_x: continue
        """
        targets, checks = [], []
        for slot in slots:
            name = self.name_of(slot)
            if name is None and not isinstance(slot, Const):
                targets.append(self.bind(slot.name))
            else:
                targets.append(self.temporary())
                checks.append(f"{targets[-1]} != {name}")
        self.loop(", ".join(targets), items, sized=sized, looked_up=looked_up, counted=counted)
        for check in checks:
            self.skip_if(check)

    def _test_membership(self, triple: str, side: Side) -> None:
        """Writes a membership test of a triple all of whose slots are bound."""
        if side is Side.BOTH:
            background, delta = self._triple_set(Side.BACKGROUND), self._triple_set(Side.DELTA)
            name = self.temporary()
            self.assign(name, triple)
            self.skip_if(f"{name} not in {background} and {name} not in {delta}")
        else:
            self.skip_if(f"{triple} not in {self._triple_set(side)}")

    def _triple_set(self, side: Side) -> str:
        if side is Side.BACKGROUND and self.index is not None:
            return self.background_parameter("triples", self.index.triples)
        return self.table("s", f"{side.value}.triples")

    def _delta_table(self, access: str, predicate: str, *, needed: bool) -> str:
        if needed and self.is_forked:  # another branch of the fork may match without this table
            return self.table("d", f"delta.{access}.get({predicate}, NO_ENDS)")
        return self.table("d", f"delta.{access}.get({predicate})", required=needed)

    def _background_table(self, access: str, predicate: str, fixed: Term) -> str:
        if self.index is None:
            return self.table("b", f"background.{access}.get({predicate}, NO_ENDS)")
        tables = self.index.by_subject if access == "by_subject" else self.index.by_object
        return self.background_parameter(f"{access} {predicate}", tables.get(fixed, NO_ENDS))

    def _background_list(self, access: str, predicate: str, end: str, fixed: Term, fixed_end: Term | None) -> str:
        if self.index is None or fixed_end is None:
            return f"{self._background_table(access, predicate, fixed)}.get({end}, NO_TERMS)"
        tables = self.index.by_subject if access == "by_subject" else self.index.by_object
        return self.background_parameter(f"{access} {predicate} {end}", tables.get(fixed, NO_ENDS).get(fixed_end, NO_TERMS))

    def _loop_ends(
        self, access: str, predicate: str, end: str, other: Slot, side: Side, fixed: Term | None, fixed_end: Term | None
    ) -> None:
        """Writes a loop over the other ends of the triples with a predicate and one end.

        `?c <in> ?b` of both sides, with `?c` bound:

        for v_b in (
            b1.get(v_c, NO_TERMS) if d2 is None else b1.get(v_c, NO_TERMS) + d2.get(v_c, NO_TERMS)
        ):
        """
        items = self._other_ends(access, predicate, end, side, fixed, fixed_end)
        is_constant = fixed is not None and side is Side.BACKGROUND and self.index is not None and fixed_end is not None
        self._loop([other], items, looked_up=not is_constant)

    def _other_ends(self, access: str, predicate: str, end: str, side: Side, fixed: Term | None, fixed_end: Term | None) -> str:
        """The expression of the list of a loop of `_loop_ends`."""
        if fixed is None:
            return self._lookup(side, f"{{}}.{access}.get({predicate}, NO_ENDS).get({end}, NO_TERMS)")
        if side is Side.BACKGROUND:
            return self._background_list(access, predicate, end, fixed, fixed_end)
        if side is Side.DELTA:
            return f"{self._delta_table(access, predicate, needed=True)}.get({end}, NO_TERMS)"
        background = self._background_list(access, predicate, end, fixed, fixed_end)
        delta = self._delta_table(access, predicate, needed=False)
        return f"({background} if {delta} is None else {background} + {delta}.get({end}, NO_TERMS))"

    def _loop_pairs(self, predicate: str, pattern: TriplePattern, side: Side, fixed: Term | None) -> None:
        """Writes loops over both ends of the triples with a predicate.

        `?a <at> ?c` of the delta:

        for v_a, w0 in d0.items():
            for v_c in w0:
        """
        others = self.temporary()
        if fixed is None:
            background = f"{self._index_name(Side.BACKGROUND)}.by_subject.get({predicate}, NO_ENDS).items()"
            delta = f"delta.by_subject.get({predicate}, NO_ENDS).items()"
            pairs = f"chain({background}, {delta})" if side is Side.BOTH else (background if side is Side.BACKGROUND else delta)
        elif side is Side.BACKGROUND:
            pairs = f"{self._background_table('by_subject', predicate, fixed)}.items()"
        elif side is Side.DELTA:
            pairs = f"{self._delta_table('by_subject', predicate, needed=True)}.items()"
        else:
            background = self._background_table("by_subject", predicate, fixed)
            delta = self._delta_table("by_subject", predicate, needed=False)
            pairs = f"({background}.items() if {delta} is None else chain({background}.items(), {delta}.items()))"
        subject = self.name_of(pattern.subject)
        assert subject is None
        assert not isinstance(pattern.subject, Const)
        self.loop(f"{self.bind(pattern.subject.name)}, {others}", pairs, sized=False)
        self._loop([pattern.object], others)


@lru_cache(maxsize=4096)
def _factory(source: str, kind: str) -> Callable[..., Callable[..., Any]]:
    return define(source, kind.replace("_", " "), "make", _NAMES)


@lru_cache(maxsize=4096)
def _condition(expression: Expression) -> Callable[..., bool]:
    return condition(expression, [Var(variable) for variable in free_variables(expression)])


@lru_cache(maxsize=4096)
def _evaluator(expression: Expression) -> Callable[..., Term | None]:
    return evaluator(expression, [Var(variable) for variable in free_variables(expression)])
