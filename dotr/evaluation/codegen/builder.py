"""Builder of one function of nested loops: bound names, factory parameters, tables looked up before
the first loop.

Invariant: the text holds generated names only. Terms, tables and conditions are parameters of a
factory, so that functions of one form share one compilation and no text of the user is executed.
Cost: about 0.5 µs a statement to build and to print; 50 to 500 µs to compile a new text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Final, TypeAlias

from dotr.evaluation.codegen.printer import printed_factory
from dotr.evaluation.codegen.tree import (
    AddWork,
    Assign,
    Block,
    CodeNode,
    Emit,
    ForEach,
    Fork,
    GeneratedFunction,
    IfElse,
    Outlined,
    Require,
    SkipIf,
    TableLookUp,
    WorkCounter,
)
from dotr.model import dataclass
from dotr.model.terms import Term, Variable

# Passes over the tree of a generated function, in their order.


def optimized(function: GeneratedFunction) -> GeneratedFunction:
    """The function after all passes: look-ups are moved, then work is counted, then deep loops
    are split."""
    for each in (prefetch, count_work, split):
        function = each(function)
    return function


# Counting of work: each loop adds its length to the work, and the limit is checked when the work
# passes a bound.
#
# Idea: the outermost loops have at most as many turns as there are triples, so they are counted only
# in a function that is called for each solution of another (`is_repeated`). An inner loop adds its
# length plus one (for the look-up) when it is entered; without a known length it adds one per turn. A
# loop is not counted if every turn of it enters a counted loop.
#
#     for x in n0:                        for x in n0:
#         for y in b1.get(x, ()):             w0 = b1.get(x, ())
#             append(y)                       work += len(w0) + 1
#                                             if work > most: most = passed(work, rows)
#                                             for y in w0:
#                                                 append(y)


def count_work(function: GeneratedFunction) -> GeneratedFunction:
    """Adds counting to a function that has a counter.

    >>> from dotr.evaluation.codegen.printer import printed
    >>> from dotr.evaluation.codegen.tree import WorkCounter
    >>> loops = ForEach("x", "n0", [ForEach("y", "b1.items()", [SkipIf("x == y")], sized=False)])
    >>> print(printed(count_work(GeneratedFunction("join", "n0, b1, rows", [loops], counter=WorkCounter("0", "c2", "p3")))))
    def join(n0, b1, rows):
        work, most, passed = 0, c2, p3
        for x in n0:
            for y in b1.items():
                work += 1
                if work > most: most = passed(work, rows)
                if x == y: continue
    <BLANKLINE>
    """
    counter = function.counter
    if counter is None:
        return function
    start = Assign("work, most, passed", f"{counter.start}, {counter.least}, {counter.passed}")
    body = _count_block(function.body, (f"counted{n}" for n in count()), inner=counter.is_repeated)
    return replace(function, body=[start, *body])


def _count_block(block: Block, names: Iterator[str], *, inner: bool, outermost: Collection[str] = ()) -> Block:
    """The block after the pass.

    With `inner`, its loops are counted, except a loop over a variable of the outermost loop (the
    objects of a subject), which has at most as many turns as there are triples.
    """
    statements: list[CodeNode] = []
    for each in block:
        if isinstance(each, ForEach):
            is_counted = inner and each.counted and each.items not in outermost and not _counts_every_turn(each.body)
            name = next(names) if is_counted and each.sized else ""
            body = _count_block(each.body, names, inner=True, outermost=() if inner else each.targets.split(", "))
            if name:
                statements += [Assign(name, each.items), AddWork(f"len({name}) + 1"), replace(each, items=name, body=body)]
            else:
                statements.append(replace(each, body=[AddWork("1"), *body] if is_counted else body))
        elif isinstance(each, Fork):
            statements.append(Fork([_count_block(branch, names, inner=inner) for branch in each.branches]))
        elif isinstance(each, IfElse):
            statements.append(_in_cases(each, lambda case: _count_block(case, names, inner=inner)))
        else:
            statements.append(each)
    return statements


def _in_cases(choice: IfElse, change: Callable[[Block], Block]) -> IfElse:
    """The choice with each of its blocks changed."""
    return IfElse([(condition, change(block)) for condition, block in choice.cases], change(choice.otherwise))


def _counts_every_turn(body: Block) -> bool:
    """True if each turn of a loop with this body reaches a counting loop.

    Of three nested loops the innermost and the outermost count: the middle one may have no turn.
    """
    for each in body:
        if isinstance(each, SkipIf | Require | Fork | IfElse):
            return False
        if isinstance(each, ForEach):
            return each.counted and not _counts_every_turn(each.body)
    return False


# Prefetching: look-ups of the branches of a fork move before its first branch.
#
# Idea: consecutive look-ups wait for memory together (most of them miss the processor's caches). A
# function that counts its work is unchanged: each of its look-ups is counted when its loop is
# entered.
#
#     for x in n0:                        for x in n0:
#         for y in b1.get(x, ()):             early0 = b1.get(x, ())
#             append(y)                       early1 = b2.get(x, ())
#         for z in b2.get(x, ()):             for y in early0:
#             extend(z)                           append(y)
#                                             for z in early1:
#                                                 extend(z)


def prefetch(function: GeneratedFunction) -> GeneratedFunction:
    """Moves the first look-up of each branch before the fork, except outside all loops.

    >>> inner = [[ForEach(name, f"{table}.get(x, ())", (), looked_up=True)] for name, table in (("y", "b1"), ("z", "b2"))]
    >>> from dotr.evaluation.codegen.printer import printed
    >>> print(printed(prefetch(GeneratedFunction("join", "n0, b1, b2", [ForEach("x", "n0", [Fork(inner)])], has_fork=True))))
    def join(n0, b1, b2):
        for x in n0:
            early0 = b1.get(x, ())
            early1 = b2.get(x, ())
            for y in early0:
                pass
            for z in early1:
                pass
    <BLANKLINE>
    """
    if not function.has_fork or function.counter is not None:
        return function
    return replace(function, body=_prefetch_block(function.body, (f"early{n}" for n in count()), inside_loop=False))


def _prefetch_block(block: Block, names: Iterator[str], *, inside_loop: bool) -> Block:
    """The block after the pass; `inside_loop` is true within a loop."""
    statements: list[CodeNode] = []
    for each in block:
        if isinstance(each, ForEach):
            statements.append(replace(each, body=_prefetch_block(each.body, names, inside_loop=True)))
        elif isinstance(each, Fork):
            branches = []
            for branch in each.branches:
                first = branch[0] if branch else None
                if inside_loop and isinstance(first, ForEach) and first.looked_up:
                    name = next(names)
                    statements.append(Assign(name, first.items))
                    branch = [replace(first, items=name), *branch[1:]]
                branches.append(_prefetch_block(branch, names, inside_loop=inside_loop))
            statements.append(Fork(branches))
        else:
            statements.append(each)
    return statements


# Splitting of deep functions: CPython compiles at most 20 nested blocks, so deeper loops become
# an inner function.

LOOPS_OF_A_FUNCTION: Final = 18


def split(function: GeneratedFunction, most: int = LOOPS_OF_A_FUNCTION) -> GeneratedFunction:
    """Moves loops below `most` others into an inner function.

    >>> from dotr.evaluation.codegen.printer import printed
    >>> loops = ForEach("x", "n0", [ForEach("y", "n1", [ForEach("z", "n2", ())])])
    >>> print(printed(split(GeneratedFunction("join", "n0, n1, n2", [loops], depth=3), most=2)))
    def join(n0, n1, n2):
        for x in n0:
            for y in n1:
                def rest():
                    for z in n2:
                        pass
                rest()
    <BLANKLINE>
    """
    if function.depth <= most:
        return function
    assigned = "work, most" if function.counter is not None else ""
    return replace(function, body=_split(function.body, 0, most, assigned))


def _split(block: Block, depth: int, most: int, assigned: str) -> Block:
    """The block after the pass; `depth` loops of its function are around it."""
    statements: list[CodeNode] = []
    for each in block:
        if isinstance(each, ForEach):
            inside = 0 if depth == most else depth
            loop = replace(each, body=_split(each.body, inside + 1, most, assigned))
            statements.append(Outlined("rest", [loop], assigned) if depth == most else loop)
        elif isinstance(each, Fork):
            statements.append(Fork([_split(branch, depth, most, assigned) for branch in each.branches]))
        elif isinstance(each, IfElse):
            statements.append(_in_cases(each, lambda case: _split(case, depth, most, assigned)))
        else:
            statements.append(each)
    return statements


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
