"""A conjunction over a known background: its answers there, and those that need a new triple (semi-naive evaluation of a query).

Idea: answers that use the new triples are found by one join for each pattern, which reads the new triples alone, those before it the
background alone, those after it both. Where patterns match nothing in the background at all, every answer takes a new triple for
each of them, and a single join does.
Invariant: the rows of `static` and of all `deltas` together are the bag of the conjunction's answers over background and new triples,
which share none. BIND leaves its variable unbound where it errs, and conditions err on that; both stand behind the joins they need.
Cost: of a delta, the matches that begin with a new triple; one or two look-ups where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dotr.expressions import condition, evaluator
from dotr.knowledge.joins import JoinWriter
from dotr.knowledge.ordering import Side, ordered
from dotr.knowledge.triples import TripleIndex
from dotr.model.algebra import Const, Slot, TriplePattern, Var
from dotr.model.datalog import Test
from dotr.model.terms import Term, Variable
from dotr.queries.branches import Branch, Step, Table
from dotr.queries.scope import Reads, either, parameters_of, reads_of, variables_of

Row: TypeAlias = tuple[Term | None, ...]
Delta: TypeAlias = Callable[[TripleIndex, TripleIndex], list[Row]]


class Conjunction:
    """A branch of a query. `empty`: it has no answers over the background. `reads`: the kinds of new triples (None: any) of which it needs
    one for an answer beyond those."""

    def __init__(self, branch: Branch, wanted: Sequence[Variable], background: TripleIndex) -> None:
        self._branch = _settled(branch)
        self._wanted = wanted
        self._background = background
        patterns = self._branch.patterns
        fresh = [pattern for pattern in patterns if not _in_background(pattern, background)]
        hopeless = any(not table.rows for table in branch.tables)
        self.empty = bool(fresh) or hopeless
        self.reads: Reads | None = frozenset()
        self.deltas: tuple[Delta, ...] = ()
        if fresh and not hopeless:
            self.reads = reads_of(min(fresh, key=_rarity))
            self.deltas = (self._join([Side.NEW if pattern in fresh else Side.BOTH for pattern in patterns]),)
        elif not hopeless:
            for pattern in patterns:
                self.reads = either(self.reads, reads_of(pattern))
            sides = [[Side.BACKGROUND] * i + [Side.NEW] + [Side.BOTH] * (len(patterns) - i - 1) for i in range(len(patterns))]
            self.deltas = tuple(map(self._join, sides))

    def static(self) -> list[Row]:
        """The answers over the background alone."""
        return [] if self.empty else self._join([Side.BACKGROUND] * len(self._branch.patterns))(self._background, TripleIndex())

    def _join(self, sides: list[Side]) -> Delta:
        matched = variables_of(self._branch.patterns)
        early = [step for step in self._branch.steps if _is_early(step, matched)]
        writer = JoinWriter("join", leave="return rows", index=self._background)
        writer.begin(["background", "new"])
        writer.line("rows = []")
        writer.line("append = rows.append")
        tests = [Test(step.expression) for step in early]
        writer.steps(ordered([*self._branch.patterns, *tests], (), sides, self._background))
        for table in self._branch.tables:
            _write_table(writer, table)
        for step in self._branch.steps:
            if step not in early:
                _write_step(writer, step)
        writer.line(f"append(({''.join(f'{writer.read(variable)}, ' for variable in self._wanted)}))")
        writer.end()
        return writer.function()


def _is_early(step: Step, matched: frozenset[Variable]) -> bool:
    """Whether a condition can be decided from what the patterns bind."""
    if step.variable is not None:
        return False
    return all(isinstance(parameter, Var) and (parameter.name in matched) for parameter in parameters_of(step.expression))


def _write_step(writer: JoinWriter, step: Step) -> None:
    parameters = parameters_of(step.expression)
    arguments = ", ".join(writer.read(parameter.name) for parameter in parameters if isinstance(parameter, Var))
    if step.variable is None:
        writer.require(f"{writer.parameter('t', condition(step.expression, parameters))}({arguments})")
    else:
        value = writer.parameter("e", evaluator(step.expression, parameters))
        writer.line(f"{writer.bind(step.variable)} = {value}({arguments})")


def _write_table(writer: JoinWriter, table: Table) -> None:
    """Looks a table's rows up by the columns that are bound by then, and binds the others."""
    keys = [i for i, name in enumerate(table.variables) if name in writer.names]
    others = [i for i, name in enumerate(table.variables) if name not in writer.names]
    if not keys:
        writer.loop(_targets(writer, table.variables), writer.parameter("r", table.rows))
        return
    found: dict[Row, list[Row]] = {}
    for row in table.rows:
        found.setdefault(tuple([row[i] for i in keys]), []).append(tuple([row[i] for i in others]))
    key = "".join(f"{writer.read(table.variables[i])}, " for i in keys)
    lookup = f"{writer.parameter('m', found.get)}(({key}), ())"
    writer.loop(_targets(writer, [table.variables[i] for i in others]), lookup)


def _targets(writer: JoinWriter, variables: Sequence[Variable]) -> str:
    return "".join(f"{writer.bind(variable)}, " for variable in variables).rstrip() or "_"


def _settled(branch: Branch) -> Branch:
    """The branch with the terms of one-row tables in its patterns."""
    known = {
        name: term for table in branch.tables if len(table.rows) == 1 for name, term in zip(table.variables, table.rows[0], strict=True)
    }

    def slot(each: Slot) -> Slot:
        return Const(known[each.name]) if isinstance(each, Var) and each.name in known else each

    patterns = tuple(TriplePattern(slot(p.subject), slot(p.predicate), slot(p.object)) for p in branch.patterns)
    return Branch(patterns, branch.tables, branch.steps)


def _in_background(pattern: TriplePattern, background: TripleIndex) -> bool:
    terms = [slot.term if isinstance(slot, Const) else None for slot in (pattern.subject, pattern.predicate, pattern.object)]
    return next(background.match(*terms), None) is not None


def _rarity(pattern: TriplePattern) -> tuple[bool, bool, bool]:
    """Orders patterns by how seldom an instant is expected to match them."""
    return isinstance(pattern.predicate, Var), isinstance(pattern.object, Var), isinstance(pattern.subject, Var)
