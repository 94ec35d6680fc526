"""A function of nested loops, written as Python line by line: names, parameters, tables looked up before the first loop, and counted work.

Invariant: the text holds names made here only. Terms, tables and conditions come in as parameters of a factory, so that functions of one
shape share one compilation and no text of the user's is ever executed.
Cost: 50 to 200 µs to compile a shape, about 3 µs to repeat it with other terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

from dotr.codegen import define
from dotr.knowledge.limits import Passed
from dotr.knowledge.triples import NO_EDGES, NO_ENDS, NO_TERMS, Edges, Ends, TripleIndex
from dotr.model.terms import Term, Triple, Variable

Row: TypeAlias = tuple[Term | None, ...]
Parameter: TypeAlias = (
    Term | int | TripleIndex | Ends | Edges | list[Term] | set[Triple] | frozenset[Term] | tuple[Row, ...] | Callable[..., object]
)
"""What generated code is given: terms, tables of a fixed background, rows found beforehand, conditions."""

_LOOPS_A_FUNCTION: Final = 18
"""CPython compiles at most 20 nested loops in one function."""

_NAMES: Final = {"ONCE": (None,), "chain": chain, "NO_EDGES": NO_EDGES, "NO_ENDS": NO_ENDS, "NO_TERMS": NO_TERMS}


@dataclass(frozen=True, slots=True)
class Count:
    """How a join counts its work: from what it `start`s (an expression); more than `least` is shown to `passed`, with `rows`. `again`: the
    join is called many times."""

    least: int
    passed: Passed
    start: str = "0"
    again: bool = False


class LoopWriter:
    """Writes one function of nested loops; what stands innermost is up to the caller.

    `names` are the variables bound so far with the Python names that hold them. `leave` is what the function returns with.

    With a `count` it counts its work. Inner loops are counted when they are entered, by their length; one that always enters another is
    counted there. The outermost ones look at no more than there are triples, so that they are counted only in a join that is called for
    each solution of another.
    """

    def __init__(self, name: str, *, leave: str, count: Count | None = None) -> None:
        self.name = name
        self.leave = leave
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
        self._places: list[int] = []
        self._begins = False
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
        self._begins = False
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
        if self._begins and self._places and self._count is None:
            iterable = self._looked_up_before(iterable)
        if self._count is None or not self._is_inner:
            self.line(f"for {targets} in {iterable}:")
            self._indent += 1
        else:
            self._counted_loop(targets, iterable)
        self._loops += 1

    @property
    def _is_inner(self) -> bool:
        return bool(self._loops or self._nested or (self._count and self._count.again))

    def _looked_up_before(self, iterable: str) -> str:
        """What a branch begins with, looked up before the first of the branches: look-ups in a row wait for memory together."""
        if ".get(" not in iterable or ".items()" in iterable:
            return iterable
        name = self.temporary()
        self._lines.insert(self._places[-1], f"{' ' * self._indent}{name} = {iterable}")
        self._places[-1] += 1
        return name

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
    def branches(self) -> Iterator[None]:
        """What is written inside are branches (`branch`) of the innermost loop so far."""
        if self._first_loop is None:
            yield
        else:
            self._places.append(len(self._lines))
            yield
            self._places.pop()

    @contextmanager
    def branch(self) -> Iterator[None]:
        """What is written inside stands in the innermost loop so far, beside other branches: where it leaves off, they go on."""
        names, indent, before = dict(self.names), self._indent, self._beside
        self._last_count = None
        loops, nested = self._beside = (self._loops, len(self._nested))
        self._begins = True
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
        return _factory(self.source, self.name)(*self.parameters.values())

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
            self._places = [place + len(lines) for place in self._places]
        return name

    def rows(self, names: Sequence[Variable], rows: tuple[Row, ...]) -> None:
        """A loop over rows that were found beforehand."""
        targets = "".join(f"{self.bind(name)}, " for name in names)
        self.loop(targets.rstrip(), self.parameter("r", rows))

    def _given(self, key: str, value: Parameter) -> str:
        """A part of the fixed background, as a parameter."""
        if key not in self._fetched:
            self._fetched[key] = self.parameter("b", value)
        return self._fetched[key]


@lru_cache(maxsize=4096)
def _factory(source: str, kind: str) -> Callable[..., Callable[..., Any]]:
    return define(source, kind, "make", _NAMES)
