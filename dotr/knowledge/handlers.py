"""Generated functions, one for each rule and position: what follows from a triple that comes in there.

    handler(s, p, o, new, push, active, alarms)
    handler(triples, new, push, active, alarms)         # with `many`: the same for each of some triples, which the handler loops over

joins the triple with the background, which is fixed when the handler is compiled, and with `new`, which holds it already. Conclusions go to
`push`, known or not; a contradiction goes to `alarms` as (rule, triples). `active` is for wake-up calls (`dotr.knowledge.closure`).

A handler for a key has the schema built in: one way to satisfy it becomes constants, several become a loop over rows.
Cost: about 30 µs to write; compilation is shared by all handlers of one shape (`dotr.knowledge.joins`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dotr.knowledge.derivations import Alarm, Push, RuleWriter
from dotr.knowledge.joins import Row, compile_join
from dotr.knowledge.ordering import JoinItem, Side, ordered, variables
from dotr.knowledge.positions import Position, split
from dotr.knowledge.triples import HIDDEN, TripleIndex
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import Aggregate, Bind, DatalogRule
from dotr.model.terms import Term, Variable

Handler: TypeAlias = Callable[[Term, Term, Term, TripleIndex, Push, "list[Handler]", "list[Alarm]"], None]

_ARGUMENTS = ("s", "p", "o", "new", "push", "active", "alarms")
_MANY = ("triples", "new", "push", "active", "alarms")


def schema_rows(schema: Sequence[JoinItem], given: dict[Variable, Term], wanted: Sequence[Variable], index: TripleIndex) -> list[Row]:
    """The distinct ways in which the background satisfies a schema."""
    sides = [Side.BACKGROUND for item in schema if isinstance(item, TriplePattern)]
    join = compile_join(schema, list(given), sides, wanted, index=index, hidden=True)
    return list(dict.fromkeys(join(index, index, *given.values())))


def general_handler(position: Position, index: TripleIndex, *, many: bool = False) -> Handler:
    """A handler for any triple that the position matches; it checks the whole pattern."""
    writer = _begin(position, index, routed=False, many=many)
    return _finish(writer, position.rule, position.others(), index)


def routed_handler(position: Position, index: TripleIndex, *, many: bool = False) -> Handler:
    """A handler for triples that have the pattern's predicate and object, where those are constants.

    >>> from dotr.model.algebra import Var
    >>> at, inside = (TriplePattern(Var("a"), Const("<at>"), Var("c")), TriplePattern(Var("c"), Const("<in>"), Var("b")))
    >>> rule = DatalogRule("r", (TriplePattern(Var("a"), Const("<in>"), Var("b")),), (at, inside))
    >>> index = TripleIndex([("<c>", "<in>", "<b>")])
    >>> found: list[Triple] = []
    >>> routed_handler(Position(rule, at, 0, None), index)("<a>", "<at>", "<c>", TripleIndex(), found.append, [], [])
    >>> found
    [('<a>', '<in>', '<b>')]
    """
    writer = _begin(position, index, routed=True, many=many)
    return _finish(writer, position.rule, position.others(), index)


def keyed_handler(position: Position, key: Term, index: TripleIndex, *, many: bool = False) -> Handler:
    """A handler for triples whose predicate (or class) is this one, with the background's schema built in."""
    assert position.key is not None
    parts = split(position, index)
    writer = _opened(position, index, many)
    writer.know(position.key, key)
    _match(writer, position.pattern, routed=True)
    heads = [name for head in position.rule.head for name in variables(head)]
    later = [name for item in (parts.residue if position.rule.head else position.rule.body) for name in _mentioned(item)]
    settled = {name for item in parts.schema for name in _mentioned(item)} - {position.key}
    needed = [name for name in dict.fromkeys([*heads, *later]) if name in settled]
    rows = schema_rows(parts.schema, {position.key: key}, needed, index)
    if len(rows) == 1:
        for name, term in zip(needed, rows[0], strict=True):
            assert term is not None
            writer.know(name, term)
        residue = parts.residue
    else:
        residue = _test_early(writer, parts.residue, index)
        writer.rows(needed, tuple(rows))
    return _finish(writer, position.rule, residue, index)


def _mentioned(item: JoinItem | object) -> tuple[Variable, ...]:
    if isinstance(item, Bind):
        return (*variables(item), item.variable)
    if isinstance(item, Aggregate):
        return (*item.keys, *(name for name, _ in item.results))
    return variables(item) if isinstance(item, JoinItem) else ()


def _test_early(writer: RuleWriter, items: Sequence[JoinItem], index: TripleIndex) -> tuple[JoinItem, ...]:
    """Writes the conditions that need nothing but the triple; returns the rest."""
    early = [i for i in items if not isinstance(i, TriplePattern | Bind | Aggregate) and writer.names.keys() >= set(variables(i))]
    writer.steps(ordered(early, writer.names, [], index))
    return tuple(item for item in items if item not in early)


def _opened(position: Position, index: TripleIndex, many: bool) -> RuleWriter:
    writer = RuleWriter("handler", position.rule, position.stratum, index=index)
    writer.begin(_MANY if many else _ARGUMENTS)
    if many:
        writer.loop("s, p, o", "triples")
    return writer


def _begin(position: Position, index: TripleIndex, *, routed: bool, many: bool) -> RuleWriter:
    writer = _opened(position, index, many)
    _match(writer, position.pattern, routed=routed)
    return writer


def _match(writer: RuleWriter, pattern: TriplePattern, *, routed: bool) -> None:
    """Names what the triple binds, and compares the rest of the pattern. What brought the triple here has been compared already: a
    constant predicate and then a constant object, or the key."""
    is_routed = routed and writer.term(pattern.predicate) is not None
    if not writer.hidden and writer.slot(pattern.predicate) is None:
        writer.skip_if(f"p.startswith({writer.parameter('h', HIDDEN)})")
    free: set[Variable] = set()
    for argument, slot in (("p", pattern.predicate), ("o", pattern.object), ("s", pattern.subject)):
        held = writer.slot(slot)
        if held is None and not isinstance(slot, Const):
            writer.names[slot.name] = argument
            free.add(slot.name)
        elif not (is_routed and argument != "s" and (isinstance(slot, Const) or slot.name not in free)):
            writer.skip_if(f"{argument} != {held}")


def _finish(writer: RuleWriter, rule: DatalogRule, rest: Sequence[JoinItem], index: TripleIndex) -> Handler:
    sides = [Side.BOTH for item in rest if isinstance(item, TriplePattern)]
    writer.steps(ordered(rest, writer.names, sides, index))
    writer.conclude(rule)
    writer.end()
    function: Handler = writer.function()
    return function
