"""Partition keys of EP-SPARQL units, and the streams that feed their operands, spread by these keys.

Idea: a key has a variable of each operand, bound in all of its solutions, such that solutions that
combine have equal values. That is so if the variable of both operands is the same, since combined
solutions are compatible; or if a FILTER conjunct `?a = ?b` equates the two, unless a policy chooses
before the FILTER is tested. For an optional operator only its own condition F equates variables.
Example: `{ ?c :price ?p } SEQ { ?d :price ?q } FILTER(?c = ?d)` has the key (c, d) alone, since ?p
and ?q are not equated.
Source: ep-sparql.md, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple, TypeAlias, assert_never

from dotr.model import dataclass
from dotr.model.algebra import Call, Expression, Var
from dotr.model.places import Span
from dotr.model.terms import Label, Variable
from dotr.model.traverse import conjuncts
from dotr.temporal.intervals.patterns import (
    Alternatives,
    Chain,
    Combination,
    EventRead,
    InstantAnswers,
    InstantGroup,
    IntervalPattern,
    SelectedSolutions,
    TemporalOperator,
    TemporalQuery,
    UsePolicy,
    certain_variables,
    combinations,
    operand_reads,
    visible_variables,
)
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.spread import ReadSpread
from dotr.temporal.layout.units import UnitRead

OperandKeys: TypeAlias = tuple[Variable, ...]
"""A variable for each operand, in the order of the text."""

_Equalities: TypeAlias = frozenset[frozenset[Variable]]

_MAX_KEYS: Final = 64
"""The number of keys of a part that are considered; FILTERs that equate many variables make many.
"""


def operand_keys(query: TemporalQuery) -> OperandKeys | None:
    """The variables by whose values a unit can be partitioned, one for each operand; None: no key.

    The certain variables of operands of EVENT must be set. Of several keys the result is the one
    with the fewest different names, then the least.
    """
    if query.where is None:
        return None
    found = _keys(query.where, frozenset(), chooses=query.policy is not UsePolicy.UNRESTRICTED)
    if isinstance(query.form, SelectedSolutions) and query.form.distinct:
        shown = {name for name, expression in query.form.columns if expression is None} & certain_variables(query.where)
        found = [key for key in found if not shown.isdisjoint(key)]
    return min(found, key=lambda key: (len(set(key)), key), default=None)


def interval_key(query: TemporalQuery) -> UnitKey:
    """The key of a unit: the variable of its first operand, or the reason for one partition."""
    key = operand_keys(query)
    return UnitKey(None, _reason(query)) if key is None else UnitKey(key[0], "")


def _reason(query: TemporalQuery) -> str:
    """The reason for which a unit has one partition."""
    if query.where is None or isinstance(query.form, InstantAnswers):
        return "it is evaluated over each instant as a whole"
    operators = list(combinations(query.where))
    if not operators:
        return "its solutions have no variable that is always bound"
    if isinstance(query.form, SelectedSolutions) and query.form.distinct and _keys(query.where, frozenset(), chooses=True):
        return "DISTINCT compares solutions, and no variable of the key is projected"
    return "no variable is bound in every operand of every operator"


def _keys(pattern: IntervalPattern, equal: _Equalities, *, chooses: bool) -> list[OperandKeys]:
    """The keys of a pattern.

    `equal`: pairs of variables that are equal in every result that the pattern is part of.
    `chooses`: a policy chooses solutions before a FILTER is tested.
    """
    match pattern:
        case InstantGroup() | EventRead():
            return [(name,) for name in sorted(pattern.certain)]
        case Alternatives(branches):
            count = len(list(operand_reads(pattern)))
            common = frozenset.intersection(
                *(frozenset(n for key in _keys(b, equal, chooses=chooses) for n in _same(key)) for b in branches)
            )
            return [(name,) * count for name in sorted(common)]
        case Chain(inner, _, filters):
            return _keys(inner, equal if chooses else equal | _equated(filters), chooses=chooses)
        case Combination(operator, left, right, condition):
            inside: _Equalities = frozenset() if chooses else _equated(condition)
            match operator:
                case TemporalOperator.OPTIONALSEQ:
                    across, of_left, of_right = inside, inside, equal
                case TemporalOperator.EQUALSOPTIONAL:
                    across, of_left, of_right = inside, equal, inside
                case _:
                    across, of_left, of_right = equal, equal, equal
            pairs = product(_keys(left, of_left, chooses=chooses), _keys(right, of_right, chooses=chooses))
            return _first((*a, *b) for a, b in pairs if any(_are_equated(x, y, across) for x in a for y in b))
        case _:
            assert_never(pattern)


def _first(keys: Iterable[OperandKeys]) -> list[OperandKeys]:
    return [key for key, _ in zip(dict.fromkeys(keys), range(_MAX_KEYS), strict=False)]


def _same(key: Sequence[Variable]) -> Iterable[Variable]:
    """The variable of a key in which all operands have the same one; else nothing."""
    return key[:1] if len(set(key)) == 1 else ()


def _are_equated(one: Variable, other: Variable, equal: _Equalities) -> bool:
    """True if two variables are the same, or equated, transitively."""
    reached = {one}
    while other not in reached:
        further = {name for pair in equal if not reached.isdisjoint(pair) for name in pair} - reached
        if not further:
            return False
        reached |= further
    return True


def _equated(conditions: Iterable[Expression]) -> _Equalities:
    """The pairs of variables that conjuncts equate."""
    found = set()
    for condition in conditions:
        for part in conjuncts(condition):
            match part:
                case Call("=" | "SAMETERM", (Var(one), Var(other))):
                    found.add(frozenset((one, other)))
    return frozenset(found)


# Streams that feed the operands of a unit, and their spreading: the columns of keys in the rows that it
# reads (ep-sparql.md, 2, 4 and 5).
#
# Example: the unit `Q`, of `{ ?c :rose ?q } SEQ { ?c :price ?p }`, where the STREAM `Up` makes graphs
# of `?c :rose ?q`, has three reads: the facts of either plain group, and the graphs of `Up` with
# their starts. Operand 0 has the inputs 0 and 1, operand 1 has the input 2.


class OperandInput(NamedTuple):
    """A read that feeds an operand.

    - `read`: its number.
    - `columns`: for each variable of the operand, sorted, the place of its term in a row; None: the
      row is a graph, in which the operand is matched.
    - `has_start`: the row begins with the start of the event.
    """

    read: int
    columns: tuple[int, ...] | None
    has_start: bool


@dataclass(frozen=True, slots=True)
class LinkedQuery:
    """A QUERY or STREAM with the streams that it reads.

    - `operands`: the inputs of each operand, in the order of the text. A QUERY with SPARQL's
      modifiers has none, and one read: its answers.
    """

    query: TemporalQuery
    reads: tuple[UnitRead, ...]
    operands: tuple[tuple[OperandInput, ...], ...]

    @property
    def name(self) -> Label:
        """The name of the unit, which is its label."""
        return self.query.label

    @property
    def span(self) -> Span:
        """The place of the label."""
        return self.query.label_span


def interval_key_names(unit: LinkedQuery) -> OperandKeys:
    """The variable of each operand that keys a unit; empty: the unit has one partition."""
    return operand_keys(unit.query) or ()


def operand_places(unit: LinkedQuery, keys: OperandKeys) -> Sequence[int]:
    """The index of the key's variable among the sorted variables of each operand."""
    assert unit.query.where is not None, "a unit with a key has operands"
    operands = [each.operand for each in operand_reads(unit.query.where)]
    return [sorted(visible_variables(operand)).index(key) for operand, key in zip(operands, keys, strict=True)]


def interval_spreads(unit: LinkedQuery) -> Sequence[ReadSpread] | None:
    """The spread of each read of a unit, the same for reads of one stream; None: the unit has one
    partition.
    """
    keys = operand_keys(unit.query)
    if keys is None:
        return None
    found = {read.stream: ReadSpread((), False) for read in unit.reads}
    for place, inputs in zip(operand_places(unit, keys), unit.operands, strict=True):
        for each in inputs:
            stream = unit.reads[each.read].stream
            before = found[stream]
            if each.columns is None:
                found[stream] = ReadSpread(before.places, True)
            else:
                found[stream] = ReadSpread(tuple(sorted({*before.places, each.has_start + each.columns[place]})), before.is_everywhere)
    return [found[read.stream] for read in unit.reads]
