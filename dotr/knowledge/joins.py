"""Joins of triple patterns over the pair (background, new), as generated Python.

    join = compile_join(body, given, sides, wanted)
    rows = join(background, new, *given_terms)          # list of tuples, one per way to match, in the order of `wanted`

- `body`: triple patterns, `Test`s and `Bind`s, in any order. `given`: variables whose terms the caller passes (never None).
- `sides`: for each triple pattern of the body, in its order, which index it reads: `Side.BACKGROUND`, `Side.NEW` or `Side.BOTH`.
- `wanted`: the variables of a row. One that nothing binds is None in every row; no variables give `()` for every match.
- `index`: the background, if it is known already and will not change: sizes and look-ups are then settled when the join is compiled.
  The join is still called with it.
- `hidden`: whether variable predicates see hidden predicates (`dotr.knowledge.triples`); a query's do not.

Bag semantics: the multiplicity of a row is the number of ways to match, provided the two indexes share no triple (BOTH reads one after
the other). A `Test` that errs is false. A `Bind` that errs gives no row; SPARQL's `Extend` differs and is not compiled here. A `Bind` to a
variable that is bound already compares terms. A variable that nothing binds is None for conditions (`BOUND`, `COALESCE`).
To seed a query by each of its patterns: the seed NEW, those
before it BACKGROUND, those after it BOTH; each answer that needs the new triples is then found exactly once.

Idea: nested loops, ordered by `dotr.knowledge.ordering`. The generated text holds names made here only: terms, tables and conditions come
in as parameters of a factory, so that joins of one shape share one compilation and no text of the user's is ever executed.
Cost: 50 to 200 µs to compile a shape, about 3 µs to repeat it with other terms; a call costs its matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias, assert_never

from dotr.expressions import condition, evaluator
from dotr.knowledge.limits import Passed
from dotr.knowledge.ordering import JoinItem, Side, Step, ordered, variables
from dotr.knowledge.triples import NO_EDGES, NO_ENDS, NO_TERMS, Edges, Ends, TripleIndex
from dotr.model.algebra import Const, Expression, Slot, TriplePattern, Var
from dotr.model.datalog import Aggregate, Bind, Not, Test
from dotr.model.terms import Term, Triple, Variable

__all__ = ["Join", "JoinWriter", "Side", "compile_join", "variables", "write_join"]

Row: TypeAlias = tuple[Term | None, ...]
Join: TypeAlias = Callable[..., list[Row]]
Parameter: TypeAlias = Term | int | TripleIndex | Ends | Edges | list[Term] | set[Triple] | tuple[Row, ...] | Callable[..., object]
"""What generated code is given: terms, tables of a fixed background, rows found beforehand, conditions."""

_LOOPS_A_FUNCTION: Final = 18
"""CPython compiles at most 20 nested loops in one function."""

_NAMES: Final = {"ONCE": (None,), "chain": chain, "NO_EDGES": NO_EDGES, "NO_ENDS": NO_ENDS, "NO_TERMS": NO_TERMS}


def compile_join(
    body: Sequence[JoinItem],
    given: Sequence[Variable],
    sides: Sequence[Side],
    wanted: Sequence[Variable],
    *,
    index: TripleIndex | None = None,
    hidden: bool = False,
) -> Join:
    """A join as a function.

    >>> from dotr.model.algebra import Var
    >>> sensor = TriplePattern(Var("read"), Const("<from>"), Var("sensor"))
    >>> room = TriplePattern(Var("sensor"), Const("<in>"), Var("room"))
    >>> join = compile_join([sensor, room], [], [Side.NEW, Side.BOTH], ["read", "room"])
    >>> join(TripleIndex([("<s1>", "<in>", "<A>"), ("<s2>", "<in>", "<B>")]), TripleIndex([("<r>", "<from>", "<s1>")]))
    [('<r>', '<A>')]
    """
    function: Join = write_join(body, given, sides, wanted, index=index, hidden=hidden).function()
    return function


def write_join(
    body: Sequence[JoinItem],
    given: Sequence[Variable],
    sides: Sequence[Side],
    wanted: Sequence[Variable],
    *,
    index: TripleIndex | None = None,
    hidden: bool = False,
) -> JoinWriter:
    """A join as text and parameters.

    >>> from dotr.model.algebra import Var
    >>> sensor = TriplePattern(Var("read"), Const("<from>"), Var("sensor"))
    >>> room = TriplePattern(Var("sensor"), Const("<in>"), Var("room"))
    >>> writer = write_join([room, sensor], [], [Side.BOTH, Side.NEW], ["read", "room"])
    >>> print(writer.source)
    def make(k0, k1):
     def join(background, new):
      rows = []
      append = rows.append
      n0 = new.by_subject.get(k0)
      if n0 is None: return rows
      b1 = background.by_subject.get(k1, NO_ENDS)
      n2 = new.by_subject.get(k1)
      for v_read, w0 in n0.items():
       for v_sensor in w0:
        for v_room in (b1.get(v_sensor, NO_TERMS) if n2 is None else b1.get(v_sensor, NO_TERMS) + n2.get(v_sensor, NO_TERMS)):
         append((v_read, v_room))
      return rows
     return join
    >>> writer.parameters
    {'k0': '<from>', 'k1': '<in>'}
    """
    writer = JoinWriter("join", leave="return rows", index=index, hidden=hidden)
    writer.begin(["background", "new", *(writer.bind(variable) for variable in given)])
    writer.line("rows = []")
    writer.line("append = rows.append")
    writer.steps(ordered(body, given, sides, index))
    row = "".join(f"{writer.read(variable)}, " for variable in wanted)
    writer.line(f"append(({row[:-1] if len(wanted) == 1 else row[:-2]}))")
    writer.end()
    return writer


@dataclass(frozen=True, slots=True)
class Count:
    """How a join counts its work: from what it `start`s (an expression); more than `least` is shown to `passed`, with `rows`. `again`: the
    join is called many times."""

    least: int
    passed: Passed
    start: str = "0"
    again: bool = False


class JoinWriter:
    """Writes one function of nested loops, step by step; what stands innermost is up to the caller.

    `names` are the variables bound so far with the Python names that hold them. `leave` is what the function returns with. `hidden`:
    whether variable predicates see hidden ones.

    With a `count` it counts its work. Inner loops are counted when they are entered, by their length; one that always enters another is
    counted there. The outermost ones look at no more than there are triples, so that they are counted only in a join that is called for
    each solution of another.
    """

    def __init__(
        self, name: str, *, leave: str, index: TripleIndex | None = None, hidden: bool = False, count: Count | None = None
    ) -> None:
        self.name = name
        self.leave = leave
        self.index = index
        self.hidden = hidden
        self.names: dict[Variable, str] = {}
        self.parameters: dict[str, Parameter] = {}
        self.source = ""
        self._lines: list[str] = []
        self._indent = 1
        self._loops = 0
        self._first_loop: int | None = None
        self._nested: list[int] = []
        self._constants: dict[Term, str] = {}
        self._known: dict[Variable, Term] = {}
        self._fetched: dict[str, str] = {}
        self._needed: set[str] = set()
        self._temporaries = 0
        self._beside: tuple[int, int] | None = None
        self._count = count
        self._counts: dict[str, str] = {}
        self._last_count: str | None = None

    # --- names ---

    def bind(self, variable: Variable) -> str:
        """A name for a variable that becomes bound here."""
        name = self.names[variable] = f"v_{variable}" if variable.isascii() and variable.isidentifier() else f"v{len(self.names)}"
        return name

    def know(self, variable: Variable, term: Term) -> None:
        """A variable whose term is settled when the function is compiled."""
        self._known[variable] = term
        self.names[variable] = self.constant(term)

    def read(self, variable: Variable) -> str:
        return self.names.get(variable, "None")

    def constant(self, term: Term) -> str:
        if term not in self._constants:
            self._constants[term] = self.parameter("k", term)
        return self._constants[term]

    def parameter(self, kind: str, value: Parameter) -> str:
        name = f"{kind}{len(self.parameters)}"
        self.parameters[name] = value
        return name

    def term(self, slot: Slot) -> Term | None:
        """The term of a slot, if it is settled when the function is compiled."""
        return slot.term if isinstance(slot, Const) else self._known.get(slot.name)

    def slot(self, slot: Slot) -> str | None:
        """The name that holds a slot's term, or None where it is not bound yet."""
        return self.constant(slot.term) if isinstance(slot, Const) else self.names.get(slot.name)

    def temporary(self) -> str:
        self._temporaries += 1
        return f"w{self._temporaries - 1}"

    # --- lines ---

    def begin(self, arguments: Sequence[str]) -> None:
        self.line(f"def {self.name}({', '.join(arguments)}):")
        self._indent += 1
        if self._count is not None:
            passed = self.parameter("p", self._count.passed)
            self.line(f"work, most, passed = {self._count.start}, {self.parameter('c', self._count.least)}, {passed}")

    def line(self, text: str) -> None:
        self._lines.append(" " * self._indent + text)

    def require(self, condition: str) -> None:
        self.skip_if(f"not {condition}")

    def skip_if(self, condition: str) -> None:
        if self._beside == (self._loops, len(self._nested)):  # nothing but this branch may be left
            self.loop("_", "ONCE")
        self._last_count = None
        leave = "continue" if self._loops else ("return" if self._nested else self.leave)
        self.line(f"if {condition}: {leave}")

    def loop(self, targets: str, iterable: str) -> None:
        if self._first_loop is None:
            self._first_loop = len(self._lines)
        if self._loops == _LOOPS_A_FUNCTION:
            self.line("def rest():")
            self._nested.append(self._indent)
            self._indent += 1
            self._loops = 0
            if self._count is not None:
                self.line("nonlocal work, most")
        if self._count is None or not self._is_inner:
            self.line(f"for {targets} in {iterable}:")
            self._indent += 1
        else:
            self._counted_loop(targets, iterable)
        self._loops += 1

    @property
    def _is_inner(self) -> bool:
        return bool(self._loops or self._nested or (self._count and self._count.again))

    def _counted_loop(self, targets: str, iterable: str) -> None:
        """A loop whose work is counted: by its length before it, or one by one where it has none."""
        if self._last_count is not None:
            del self._counts[self._last_count]
        if "chain(" in iterable or iterable.endswith(".items()"):
            self.line(f"for {targets} in {iterable}:")
            self._indent += 1
            amount = "1"
        else:
            name = self.temporary()
            self.line(f"{name} = {iterable}")
            amount = f"len({name}) + 1"
        mark = self._last_count = f"# {len(self._lines)} {self._temporaries}"
        self._counts[mark] = amount
        self.line(mark)
        if amount != "1":
            self.line(f"for {targets} in {name}:")
            self._indent += 1

    def _with_counts(self) -> Iterator[str]:
        """The lines, with what counts where a mark is left."""
        for line in self._lines:
            text = line.lstrip()
            if not text.startswith("# "):
                yield line
            elif text in self._counts:
                indent = line[: len(line) - len(text)]
                yield f"{indent}work += {self._counts[text]}"
                yield f"{indent}if work > most: most = passed(work, rows)"

    @contextmanager
    def branch(self) -> Iterator[None]:
        """What is written inside stands in the innermost loop so far, beside other branches: where it leaves off, they go on."""
        names, indent, before = dict(self.names), self._indent, self._beside
        self._last_count = None
        loops, nested = self._beside = (self._loops, len(self._nested))
        yield
        while len(self._nested) > nested:
            self._lines.append(" " * self._nested.pop() + "rest()")
        self.names, self._indent, self._loops, self._beside = names, indent, loops, before
        self._last_count = None

    def end(self, last: str = "") -> None:
        """The end of the function; `last` is what it does before it returns."""
        for indent in reversed(self._nested):
            self._lines.append(" " * indent + "rest()")
        if last:
            self._lines.append("  " + last)
        if self.leave != "return":
            self._lines.append("  " + self.leave)
        self.source = "\n".join([f"def make({', '.join(self.parameters)}):", *self._with_counts(), f" return {self.name}"])

    def function(self) -> Callable[..., Any]:
        """The function; its type is for the caller to say, who chose its arguments and what it returns."""
        return _factory(self.source)(*self.parameters.values())

    def _fetch(self, kind: str, expression: str, *, needed: bool = False) -> str:
        """A name for a table of the background or of the new triples, looked up once a call, before the first loop."""
        lines = []
        name = self._fetched.get(expression)
        if name is None:
            name = self._fetched[expression] = f"{kind}{len(self._fetched)}"
            lines.append(f"  {name} = {expression}")
        if needed and name not in self._needed:
            self._needed.add(name)
            lines.append(f"  if {name} is None: {self.leave}")
        if self._first_loop is None:
            self._lines += lines
        else:
            self._lines[self._first_loop : self._first_loop] = lines
            self._first_loop += len(lines)
        return name

    # --- steps ---

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Test(test):
                    self.require(f"{self.parameter('t', _condition(test))}({self._arguments(test)})")
                case Bind(expression, variable):
                    value = f"{self.parameter('e', _evaluator(expression))}({self._arguments(expression)})"
                    if variable in self.names:
                        self.skip_if(f"{value} != {self.names[variable]}")
                    else:
                        name = self.bind(variable)
                        self.line(f"{name} = {value}")
                        self.skip_if(f"{name} is None")
                case (TriplePattern() as pattern, Side() as side):
                    self.pattern(pattern, side)
                case Not() | Aggregate():
                    self.below(step)
                case _:
                    assert_never(step)

    def below(self, step: Not | Aggregate) -> None:
        """Writes what asks the strata below: only a rule's join does (`dotr.knowledge.derivations`)."""
        raise TypeError(f"{step} in the join of a query")

    def rows(self, names: Sequence[Variable], rows: tuple[Row, ...]) -> None:
        """A loop over rows that were found beforehand."""
        targets = "".join(f"{self.bind(name)}, " for name in names)
        self.loop(targets.rstrip(), self.parameter("r", rows))

    def _arguments(self, expression: Expression) -> str:
        return ", ".join(self.read(variable) for variable in variables(expression))

    def pattern(self, pattern: TriplePattern, side: Side) -> None:
        subject, predicate, object = (self.slot(slot) for slot in (pattern.subject, pattern.predicate, pattern.object))
        fixed = self.term(pattern.predicate)
        if side is Side.BOTH and fixed is not None and self.index is not None and fixed not in self.index.by_subject:
            side = Side.NEW
        if subject and predicate and object:
            self._member(f"({subject}, {predicate}, {object})", side)
        elif predicate and subject:
            self._each_end("by_subject", predicate, subject, pattern.object, side, fixed, self.term(pattern.subject))
        elif predicate and object:
            self._each_end("by_object", predicate, object, pattern.subject, side, fixed, self.term(pattern.object))
        elif predicate:
            self._each_pair(predicate, pattern, side, fixed)
        elif subject and object:
            links = f"{{}}.all_links({subject}, {object})" if self.hidden else f"{{}}.links({subject}, {object})"
            self._each([pattern.predicate], self._either(side, links))
        elif subject:
            edges = f"{{}}.all_from({subject})" if self.hidden else f"{{}}.edges_from.get({subject}, NO_EDGES)"
            self._each([pattern.predicate, pattern.object], self._either(side, edges))
        elif object:
            edges = f"{{}}.all_to({object})" if self.hidden else f"{{}}.edges_to.get({object}, NO_EDGES)"
            self._each([pattern.subject, pattern.predicate], self._either(side, edges))
        else:
            sides = [Side.BACKGROUND, Side.NEW] if side is Side.BOTH else [side]
            triples = ", ".join(self._source(each) + ("" if self.hidden else ".visible()") for each in sides)
            self._each([pattern.subject, pattern.predicate, pattern.object], f"chain({triples})")

    def _either(self, side: Side, lookup: str) -> str:
        """A list that is looked up in one index, or in both and put together."""
        if side is Side.BOTH:
            return f"{lookup.format(self._source(Side.BACKGROUND))} + {lookup.format('new')}"
        return lookup.format(self._source(side))

    def _source(self, side: Side) -> str:
        """What holds the index of a side."""
        if side is Side.BACKGROUND and self.index is not None:
            return self._given("background", self.index)
        return side.value

    def _given(self, key: str, value: Parameter) -> str:
        """A part of the fixed background, as a parameter."""
        if key not in self._fetched:
            self._fetched[key] = self.parameter("b", value)
        return self._fetched[key]

    def _each(self, slots: Sequence[Slot], iterable: str) -> None:
        """A loop that binds what the slots hold; a variable that is bound by then is compared."""
        targets, checks = [], []
        for slot in slots:
            name = self.slot(slot)
            if name is None and not isinstance(slot, Const):
                targets.append(self.bind(slot.name))
            else:
                targets.append(self.temporary())
                checks.append(f"{targets[-1]} != {name}")
        self.loop(", ".join(targets), iterable)
        for check in checks:
            self.skip_if(check)

    def _member(self, triple: str, side: Side) -> None:
        if side is Side.BOTH:
            background, new = self._triples(Side.BACKGROUND), self._triples(Side.NEW)
            name = self.temporary()
            self.line(f"{name} = {triple}")
            self.skip_if(f"{name} not in {background} and {name} not in {new}")
        else:
            self.skip_if(f"{triple} not in {self._triples(side)}")

    def _triples(self, side: Side) -> str:
        if side is Side.BACKGROUND and self.index is not None:
            return self._given("triples", self.index.triples)
        return self._fetch("s", f"{side.value}.triples")

    def _new_table(self, access: str, predicate: str, *, needed: bool) -> str:
        if needed and self._beside:
            return self._fetch("n", f"new.{access}.get({predicate}, NO_ENDS)")
        return self._fetch("n", f"new.{access}.get({predicate})", needed=needed)

    def _background_table(self, access: str, predicate: str, fixed: Term) -> str:
        if self.index is None:
            return self._fetch("b", f"background.{access}.get({predicate}, NO_ENDS)")
        tables = self.index.by_subject if access == "by_subject" else self.index.by_object
        return self._given(f"{access} {predicate}", tables.get(fixed, NO_ENDS))

    def _background_list(self, access: str, predicate: str, end: str, fixed: Term, fixed_end: Term | None) -> str:
        if self.index is None or fixed_end is None:
            return f"{self._background_table(access, predicate, fixed)}.get({end}, NO_TERMS)"
        tables = self.index.by_subject if access == "by_subject" else self.index.by_object
        return self._given(f"{access} {predicate} {end}", tables.get(fixed, NO_ENDS).get(fixed_end, NO_TERMS))

    def _each_end(self, access: str, predicate: str, end: str, other: Slot, side: Side, fixed: Term | None, fixed_end: Term | None) -> None:
        """The other ends of the triples that have this predicate and this end."""
        if fixed is None:
            self._each([other], self._either(side, f"{{}}.{access}.get({predicate}, NO_ENDS).get({end}, NO_TERMS)"))
        elif side is Side.BACKGROUND:
            self._each([other], self._background_list(access, predicate, end, fixed, fixed_end))
        elif side is Side.NEW:
            self._each([other], f"{self._new_table(access, predicate, needed=True)}.get({end}, NO_TERMS)")
        else:
            old = self._background_list(access, predicate, end, fixed, fixed_end)
            new = self._new_table(access, predicate, needed=False)
            self._each([other], f"({old} if {new} is None else {old} + {new}.get({end}, NO_TERMS))")

    def _each_pair(self, predicate: str, pattern: TriplePattern, side: Side, fixed: Term | None) -> None:
        """Both ends of the triples that have this predicate."""
        others = self.temporary()
        if fixed is None:
            old = f"{self._source(Side.BACKGROUND)}.by_subject.get({predicate}, NO_ENDS).items()"
            new = f"new.by_subject.get({predicate}, NO_ENDS).items()"
            pairs = f"chain({old}, {new})" if side is Side.BOTH else (old if side is Side.BACKGROUND else new)
        elif side is Side.BACKGROUND:
            pairs = f"{self._background_table('by_subject', predicate, fixed)}.items()"
        elif side is Side.NEW:
            pairs = f"{self._new_table('by_subject', predicate, needed=True)}.items()"
        else:
            old = self._background_table("by_subject", predicate, fixed)
            new = self._new_table("by_subject", predicate, needed=False)
            pairs = f"({old}.items() if {new} is None else chain({old}.items(), {new}.items()))"
        subject = self.slot(pattern.subject)
        assert subject is None
        assert not isinstance(pattern.subject, Const)
        self.loop(f"{self.bind(pattern.subject.name)}, {others}", pairs)
        self._each([pattern.object], others)


@lru_cache(maxsize=4096)
def _factory(source: str) -> Callable[..., Callable[..., Any]]:
    scope: dict[str, Callable[..., Callable[..., Any]]] = {}
    exec(compile(source, "<join>", "exec"), dict(_NAMES), scope)
    return scope["make"]


@lru_cache(maxsize=4096)
def _condition(expression: Expression) -> Callable[..., bool]:
    return condition(expression, [Var(variable) for variable in variables(expression)])


@lru_cache(maxsize=4096)
def _evaluator(expression: Expression) -> Callable[..., Term | None]:
    return evaluator(expression, [Var(variable) for variable in variables(expression)])
