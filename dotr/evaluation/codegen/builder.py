"""Builder of one function of nested loops: bound names, factory parameters, tables looked up before
the first loop.

Invariant: the text holds generated names only. Terms, tables and conditions are parameters of a
factory, so that functions of one form share one compilation and no text of the user is executed.
Cost: about 0.5 µs a statement to build and to print; 50 to 500 µs to compile a new text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dotr.evaluation.codegen.passes import optimized
from dotr.evaluation.codegen.printer import printed_factory
from dotr.evaluation.codegen.tree import (
    Assign,
    Block,
    CodeNode,
    Emit,
    ForEach,
    Fork,
    GeneratedFunction,
    Require,
    SkipIf,
    TableLookUp,
    WorkCounter,
)
from dotr.model.terms import Term, Variable

WorkPassed: TypeAlias = Callable[[int, Any], int]
"""`passed(work, rows)` is called when the work passes a bound; it returns the next bound, or raises
if work or rows exceed a limit."""


@dataclass(frozen=True, slots=True)
class WorkCount:
    """The counting of a join's work.

    Counting begins at `start` (an expression); beyond `least`, `passed` is called with the work and
    `rows`. `is_repeated`: the join is called many times.
    """

    least: int
    passed: WorkPassed
    start: str = "0"
    is_repeated: bool = False


class LoopBuilder:
    """Builds one function of nested loops from the outermost in; the caller adds the innermost
    statements.

    `names` maps the bound variables to the Python names that hold them. `leave` is the statement
    that returns.

    >>> builder = LoopBuilder("join", leave="return rows")
    >>> builder.begin(["new", builder.bind("x")])
    >>> builder.assign("rows", "[]")
    >>> table = builder.table("n", f"new.by_subject.get({builder.constant('<p>')})", required=True)
    >>> builder.loop(builder.bind("y"), f"{table}.get({builder.read('x')}, ())", looked_up=True)
    >>> builder.emit("rows.append", f"({builder.read('x')}, {builder.read('y')})")
    >>> builder.end()
    >>> print(builder.source)
    def make(k0):
        def join(new, v_x):
            rows = []
            n0 = new.by_subject.get(k0)
            if n0 is None: return rows
            for v_y in n0.get(v_x, ()):
                rows.append((v_x, v_y))
            return rows
        return join
    <BLANKLINE>
    >>> builder.parameters
    {'k0': '<p>'}
    """

    def __init__(self, name: str, *, leave: str, count: WorkCount | None = None) -> None:
        self.name: Final = name
        self.names: dict[Variable, str] = {}
        self.parameters: dict[str, object] = {}
        self.source = ""
        self._leave = leave
        self._count = count
        self._counter: WorkCounter | None = None
        self._signature = ""
        self._before: list[CodeNode] = []  # statements before the first loop: look-ups of tables
        self._loops: list[CodeNode] = []
        self._block = self._before  # the block of the next statement
        self._depth = 0
        self._deepest = 0
        self._forks = 0  # forks around the next statement
        self._has_fork = False
        self._constants: dict[Term, str] = {}
        self._known_terms: dict[Variable, Term] = {}
        self._tables: dict[str, str] = {}
        self._required: set[str] = set()
        self._temporaries = 0

    # --- names ---

    def bind(self, variable: Variable) -> str:
        """A name for a variable that becomes bound here."""
        name = self.names[variable] = f"v_{variable}" if variable.isascii() and variable.isidentifier() else f"v{len(self.names)}"
        return name

    def bind_constant(self, variable: Variable, term: Term) -> None:
        """Binds a variable to a term that is the same at every call."""
        self._known_terms[variable] = term
        self.names[variable] = self.constant(term)

    def read(self, variable: Variable) -> str:
        """The name that holds a variable's term, or None where it is unbound."""
        return self.names.get(variable, "None")

    def constant(self, term: Term) -> str:
        """The parameter that holds a term."""
        if term not in self._constants:
            self._constants[term] = self.parameter("k", term)
        return self._constants[term]

    def parameter(self, kind: str, value: object) -> str:
        """A new parameter of the factory: a letter and a number."""
        name = f"{kind}{len(self.parameters)}"
        self.parameters[name] = value
        return name

    def temporary(self) -> str:
        """A name unique to one statement."""
        self._temporaries += 1
        return f"w{self._temporaries - 1}"

    # --- statements ---

    def begin(self, arguments: Sequence[str]) -> None:
        """Opens the function."""
        self._signature = ", ".join(arguments)
        if self._count is not None:
            passed, least = self.parameter("p", self._count.passed), self.parameter("c", self._count.least)
            self._counter = WorkCounter(self._count.start, least, passed, self._count.is_repeated)

    def add(self, statement: CodeNode) -> None:
        """Appends a statement to the innermost block."""
        self._block.append(statement)

    def assign(self, target: str, value: str) -> None:
        """Appends `target = value`."""
        self._block.append(Assign(target, value))

    def emit(self, sink: str, item: str) -> None:
        """Appends `sink(item)`."""
        self._block.append(Emit(sink, item))

    def require(self, condition: str) -> None:
        """Continues only if the condition holds."""
        self._block.append(Require(condition))

    def skip_if(self, condition: str) -> None:
        """Continues only if the condition does not hold."""
        self._block.append(SkipIf(condition))

    def loop(self, targets: str, items: str, *, sized: bool = True, looked_up: bool = False, counted: bool = True) -> None:
        """Opens a loop around all that follows, up to the end of the branch or function."""
        body: list[CodeNode] = []
        self._loop_block.append(ForEach(targets, items, body, sized, looked_up, counted))
        self._block = body
        self._depth += 1
        if self._depth > self._deepest:
            self._deepest = self._depth

    @property
    def _loop_block(self) -> list[CodeNode]:
        """The block for the next loop or fork."""
        if self._block is self._before:
            self._block = self._loops
        return self._block

    @contextmanager
    def forked(self) -> Iterator[list[Block]]:
        """Opens a fork at the end of the innermost loop; its branches are built with `branch`."""
        branches: list[Block] = []
        self._loop_block.append(Fork(branches))
        self._forks += 1
        self._has_fork = True
        yield branches
        self._forks -= 1

    @contextmanager
    def branch(self, fork: list[Block]) -> Iterator[None]:
        """Opens a branch of a fork; a skip leaves only this branch."""
        names, block, depth = dict(self.names), self._block, self._depth
        self._block = []
        fork.append(self._block)
        yield
        self.names, self._block, self._depth = names, block, depth

    def table(self, kind: str, value: str, *, required: bool = False) -> str:
        """The name of a table that is looked up once a call, before the first loop."""
        name = self._tables.get(value)
        if name is None:
            name = self._tables[value] = f"{kind}{len(self._tables)}"
            self._before.append(TableLookUp(name, value, required))
        elif required and name not in self._required:
            self._before.append(SkipIf(f"{name} is None"))
        if required:
            self._required.add(name)
        return name

    @property
    def is_forked(self) -> bool:
        """True inside a branch of a fork."""
        return self._forks > 0

    def background_parameter(self, key: str, value: object) -> str:
        """The parameter that holds a part of a fixed background, one for each key."""
        name = self._tables.get(key)
        if name is None:
            name = self._tables[key] = self.parameter("b", value)
        return name

    def end(self, last: Block = ()) -> None:
        """Closes the function and prints it to `source`; `last` are the statements before the
        return."""
        body = [*self._before, *self._loops]
        function = GeneratedFunction(self.name, self._signature, body, self._leave, last, self._counter, self._deepest, self._has_fork)
        self.source = printed_factory(optimized(function), self.parameters)
