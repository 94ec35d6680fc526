"""Lone facts: one generated function for an instant that brings one fact to one port.

Idea: most instants of most streams have one fact. For such a fact `Operator.step` stores it in the
log and the indexes of its port, expires older events, and searches the matches of one group. For a
port that has received many such facts, this is one generated function, bound to the state, with the
code of `compile_insert` and of the group's matcher inlined; with a `RunStore` there is no log.
Invariant: the function changes the state as a step does, and its matches are those of the step.
Cost: saves three calls per fact; a function takes about a millisecond to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.codegen import define
from dotr.evaluation.codegen.printer import printed_lines
from dotr.evaluation.expressions import InlineConjunction, Parameter, inline_conjunction
from dotr.model.algebra import Expression, Var
from dotr.model.event_order import AttributeValues
from dotr.model.terms import Variable
from dotr.model.time import Micros
from dotr.model.traverse import parameters_of
from dotr.temporal.matching.event_store import TRIM, EventCondition, IndexSpec, PortStore, insertion_of_event
from dotr.temporal.matching.events import Match, StoredEvent
from dotr.temporal.matching.matcher.compile import LoneSearch, RuleMatcherEmitter
from dotr.temporal.matching.rule_search import RowFinder
from dotr.temporal.matching.state import State

TakeFact: TypeAlias = Callable[[Micros, AttributeValues], Sequence[Match]]
"""`take(time, values)` is a step of a state at a time (µs) at which one fact arrives at one port
and nothing else; it returns the matches. Raises `LoneFactFailed`."""

MANY_FACTS: Final = 1_000
"""The number of lone facts of a port after which their function is generated."""


class LoneFactFailed(DotrError):
    """A failure of the only group that a fact anchors; the fact is stored."""

    def __init__(self, event: StoredEvent, error: Exception) -> None:
        super().__init__(error)
        self.event = event
        self.error = error


class LoneFactEmitter(RuleMatcherEmitter):
    """Emitter of the body of `find` for one anchor, with simple constraints inlined."""

    def lone_search(self) -> LoneSearch | None:
        """The search; None if each anchor is counted exactly."""
        if self.is_always_exact:
            return None
        self.loop_over_anchors("(event,)")
        return LoneSearch(self.lines, self.globals)

    def require_of_anchor(self, conditions: Sequence[Expression]) -> None:
        """Skips an anchor that fails constraints of all rows."""
        inline = inline_conjunction(conditions, {each: self.argument(each, 0) for each in parameters_of(conditions)}, "a")
        if inline is None:
            super().require_of_anchor(conditions)
            return
        self.lines += printed_lines(inline.statements, "    " * self.indent, "continue")
        self.globals |= {name: value for name, value in inline.names.items() if name not in self.globals}


class LoneGroup(NamedTuple):
    """The group that the facts of a port anchor: its number, its search, and the ordinal of its
    first match."""

    number: int
    search: LoneSearch
    base: int


class PortInsertion(NamedTuple):
    """Sources of the generated insertion of a port's events (`compile_insert`), and the names of
    their attributes."""

    specs: Sequence[IndexSpec]
    tests: Sequence[EventCondition | None]
    finders: Sequence[RowFinder | None]
    attributes: Sequence[Variable]


def compile_lone_fact(
    insertion: PortInsertion, retention: Micros, group: LoneGroup | None, *, has_sweeps: bool = False, has_log: bool = True
) -> Callable[[State, PortStore], TakeFact]:
    """Generates the factory of a port's lone-fact function. Its facts anchor at most one group.

    Args:
        insertion: the indexes of the port; without any, its facts are not stored.
        retention: the retention of its facts in µs.
        group: the group of rules that its facts anchor; None: no group.
        has_sweeps: its store is a `StandingStore`.
        has_log: its store is no `RunStore`.

    Returns:
        A function from a state and the store of the port to the lone-fact function.

    For one index on the first attribute, a retention of 30 s, and no group:

    >>> from inspect import getsource
    >>> insertion = PortInsertion([IndexSpec((0,))], [None], [None], ["room"])
    >>> print(getsource(compile_lone_fact(insertion, 30_000_000, None)))
    def make(state, store):
        log, append, popleft, expire = store.log, store.log.append, store.log.popleft, store.expire
        index0, = store.indexes
        def take(t, v):
            event = e = (t, 0, v)
            append(e)
            horizon = t - 30000000
            if log[0][0] < horizon:
                popleft()
                store.expired += 1
                if store.expired > 128 + len(log) or log[0][0] < horizon: expire(t)
            s0 = v[0]
            if s0 is not None:
                k = (s0 if s0 >= '<=' else key(s0))
                c = index0.get(k)
                if c is None:
                    index0[k] = [e]
                else:
                    c.append(e)
                    if len(c) > 128 and c[len(c) >> 1][0] < horizon:
                        trim(c)
            state.countdown -= 1
            if not state.countdown: state.sweep(t)
            return ()
        return take
    <BLANKLINE>

    Without a log:

    >>> print(getsource(compile_lone_fact(insertion, 30_000_000, None, has_log=False)))
    def make(state, store):
        count_down, turn = state.count_down, store.turn
        index0, = store.indexes
        def take(t, v):
            event = e = (t, 0, v)
            k = ...
            s0 = v[0]
            if s0 is not None:
                k = (s0 if s0 >= '<=' else key(s0))
            c = index0.get(k)
            if c is None:
                index0[k] = [e]
            else:
                c.append(e)
            store.left -= 1
            if not store.left: count_down(turn(t), t)
            return ()
        return take
    <BLANKLINE>
    """
    names: dict[str, object] = {"Failed": LoneFactFailed}
    lines = ["def make(state, store):"]
    body = ["event = e = (t, 0, v)"]
    counted = ["state.countdown -= 1", "if not state.countdown: state.sweep(t)"]
    if insertion.specs:
        lines.append(
            "    log, append, popleft, expire = store.log, store.log.append, store.log.popleft, store.expire"
            if has_log
            else "    count_down, turn = state.count_down, store.turn"
        )
        lines.append(f"    {''.join([f'index{n}, ' for n in range(len(insertion.specs))])}= store.indexes")
        if has_log:
            body += [
                "append(e)",
                f"horizon = t - {retention}",
                "if log[0][0] < horizon:",
                "    popleft()",
                "    store.expired += 1",
                f"    if store.expired > {TRIM} + len(log) or log[0][0] < horizon: expire(t)",
            ]
        tests = [_inline(n, spec, insertion) or test for n, (spec, test) in enumerate(zip(insertion.specs, insertion.tests, strict=True))]
        insertions, read = insertion_of_event(insertion.specs, tests, insertion.finders, takes_all=not has_log)
        names |= read
        for statements in insertions:
            body += printed_lines(statements, "", "")
        if not has_log:
            counted = ["store.left -= 1", "if not store.left: count_down(turn(t), t)"]
        elif has_sweeps:
            body.append("if len(log) > store.most: store.drop_replaced(t)")
    body += counted
    if group is None:
        body.append("return ()")
    else:
        names |= {**group.search.names, "base": group.base}
        lines.append(f"    indexes, consumed = state.indexes[{group.number}], state.consumed")
        body += ["found = []", "try:", f"    counter = state.counter.groups[{group.number}]", *group.search.lines]
        body += ["except Exception as error:", "    raise Failed(event, error) from error", "return found"]
    lines += ["    def take(t, v):", *[f"        {line}" for line in body], "    return take\n"]
    make: Callable[[State, PortStore], TakeFact] = define("\n".join(lines), "lone fact", "make", names)
    return make


def _inline(number: int, spec: IndexSpec, insertion: PortInsertion) -> InlineConjunction | None:
    """The filter of an index as inlined code; None if it is not simple."""
    arguments: dict[Parameter, str] = {}
    for each in parameters_of(spec.own):
        if not isinstance(each, Var):
            return None  # a time
        arguments[each] = f"v[{insertion.attributes.index(each.name)}]"
    if not spec.own:
        return None
    return inline_conjunction(spec.own, arguments, f"i{number}_")
