"""Matchers of stages of rules: bindings in, bindings or matches out (scale.md, section 1).

Idea: the clauses of a stage have the same code as in the matcher of the whole rule; the beginning
and the end of the function differ. A later stage starts from a binding, a row of texts from which
times and ordinals are parsed; attributes that no later stage reads are not sent and are None. A
stage that is not the last one appends one row per binding; for a hundred rules of one template this
is a single row, which lists the rules that the binding satisfies so far.
Invariant: events bound in earlier stages have the times and ordinals of their own stores, so that
no event has two roles, and windows are relative to these times.
Limits: a stage counts its own candidates. A binding holds the product of the numbers of events
chosen so far, so that the limit on branches is that of the whole rule; rules with different
products have separate rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final, assert_never

from dotr.evaluation.codegen import define
from dotr.evaluation.limits import Limits
from dotr.model.time import Clock
from dotr.temporal.layout.stages import (
    AggregatedValue,
    AliveRules,
    BindingColumn,
    BindingStream,
    BoundOrdinal,
    BoundTime,
    BoundValue,
    BranchSize,
)
from dotr.temporal.matching.events import EnteringBinding, StoredEvent
from dotr.temporal.matching.matcher.compile import DecodeBindings, Matcher, RuleMatcherEmitter
from dotr.temporal.matching.rule_search import TableRow
from dotr.temporal.matching.rule_templates import PositionalStage, RuleGroup, RuleTemplate, stage_alone

_REMEMBERED: Final = 4096
"""The number of sets of rules whose texts, or rows, are cached."""


def compile_stage_matcher(group: RuleGroup, rows: tuple[TableRow, ...], clock: Clock, limits: Limits) -> Matcher:
    """Generates the matcher of a stage; `rows` are those of the group's table."""
    stage = group.template.stage
    assert stage is not None, "a stage of a rule"
    alone = replace(group, template=stage_alone(group.template))
    emitter = _StageEmitter(alone, rows, clock, limits)
    matcher = emitter.matcher(cache(lambda: _StageEmitter(alone, rows, clock, limits, exact=True).exact_function()))
    decode = None if stage.enters is None else compile_decoder(group.template, stage.enters, emitter.rows, _names_of(group))
    return replace(matcher, decode=decode, sends=stage.leaves is not None, passed=stage.first - 1)


def _names_of(group: RuleGroup) -> Mapping[int, str]:
    """The names of a group's rules by their numbers in the layer."""
    return dict(zip(group.numbers, group.names, strict=True))


def _bound_places(template: RuleTemplate, stage: PositionalStage) -> list[int]:
    """The places of earlier stages whose event or value a binding holds, without the anchor's."""
    return [place for place in range(1, stage.first) if template.is_positive(place) or template.is_aggregate(place)]


def compile_decoder(template: RuleTemplate, enters: BindingStream, rows: Sequence[TableRow], names: Mapping[int, str]) -> DecodeBindings:
    """Generates the decoder of the bindings that enter a stage.

    The second stage of "A, and last B of its room, and last C of B's park", for one rule:

    >>> from inspect import getsource
    >>> from dotr.languages.rules import compile_rules
    >>> from dotr.model.places import Document
    >>> from dotr.temporal.layout.layers import lay_out
    >>> from dotr.temporal.matching.matcher import compile_matcher
    >>> from dotr.temporal.matching.operator import numbered_rule, positional_stage
    >>> from dotr.temporal.matching.rule_templates import group_rules
    >>> text = '''rule R define D = [ [] <e:in> ?r ]
    ... from A = [ SELECT ?r { ?x <e:a> ?r } ]
    ... and last B = [ SELECT ?r ?p { ?x <e:b> ?r ; <e:park> ?p FILTER(?r = A.?r) } ] within 30 s from A
    ... and last C = [ SELECT ?p { ?x <e:c> ?p FILTER(?p = B.?p) } ] within 30 s from A
    ... with D.?r = A.?r'''
    >>> layer = lay_out(compile_rules([Document("a.dotr", text)], {}).rules, cut=True).layers[1]
    >>> (group,) = group_rules([numbered_rule(0, layer, ("r",))], {0: positional_stage(layer.rules[0], layer)})
    >>> print(getsource(compile_matcher(group, [0], Clock()).decode))
    def decode(arrivals):
        together = {}
        for _, _, (c0, c1, c2, c3, c4, c5, c6, ) in arrivals:
            e0 = (int(c0), int(c1), (c2, ))
            e1 = (int(c3), int(c4), (c5, c6, ))
            together.setdefault(e0[2], []).append(new(Binding, (e0, rows, 1, (e1, ))))
        return [binding for bindings in together.values() for binding in bindings]
    <BLANKLINE>

    Bindings with equal anchors are adjacent, since ordinals are assigned to equal matches in
    sequence.
    """
    stage = template.stage
    assert stage is not None, "a stage of a rule"
    item: dict[BindingColumn, str] = {column: f"c{number}" for number, column in enumerate(enters.columns)}

    def event(place: int) -> str:
        names = template.roles[place].attributes
        values = "".join([f"{item.get(BoundValue(place, name), 'None')}, " for name in names])
        return f"(int({item[BoundTime(place)]}), int({item[BoundOrdinal(place)]}), ({values}))"

    parts = "".join([f"{name}, " for name in item.values()])
    lines = ["def decode(arrivals):", "    together = {}", f"    for _, _, ({parts}) in arrivals:"]
    if AliveRules() in item:
        lines += [f"        rows = alive({item[AliveRules()]})", "        if not rows: continue"]
    lines.append(f"        e0 = {event(0)}")
    bound: list[str] = []
    for place in _bound_places(template, stage):
        if template.is_positive(place):
            lines.append(f"        e{place} = {event(place)}")
            bound.append(f"e{place}, ")
        else:
            bound.append(f"{item[AggregatedValue(place)]}, ")
    size = f"int({item[BranchSize()]})" if BranchSize() in item else "1"
    lines.append(f"        together.setdefault(e0[2], []).append(new(Binding, (e0, rows, {size}, ({''.join(bound)}))))")
    lines.append("    return [binding for bindings in together.values() for binding in bindings]")
    by_number = {enters.rules.index(names[number]): row for row in rows if isinstance(number := row[0], int)}

    @lru_cache(_REMEMBERED)
    def alive(text: str) -> tuple[TableRow, ...]:
        named = set(map(int, text.split(" ")))
        return tuple([row for number, row in by_number.items() if number in named])

    space: dict[str, object] = {"new": tuple.__new__, "Binding": EnteringBinding, "alive": alive, "rows": tuple(rows)}
    decode: DecodeBindings = define("\n".join(lines) + "\n", "binding decoder", "decode", space)
    return decode


class _StageEmitter(RuleMatcherEmitter):
    """Emitter of the matcher of a stage.

    `_sizes` are the Python names of the numbers of events that the clauses of the stage choose in
    the group's function, each with true if it is a number per row.
    """

    def __init__(self, group: RuleGroup, rows: tuple[TableRow, ...], clock: Clock, limits: Limits, *, exact: bool = False) -> None:
        super().__init__(group, rows, clock, limits, exact=exact)
        stage = group.template.stage
        assert stage is not None, "a stage of a rule"
        self._stage = stage
        self._sizes: list[tuple[str, bool]] = []
        self._written: set[int] = set()
        self._alive: set[str] = set()
        self.sizes_travel = stage.leaves is not None and BranchSize() in stage.leaves.columns
        if stage.enters is not None:
            self.start = "binding"
            if BranchSize() in stage.enters.columns:
                self._product = "n0"
                self._sizes.append(("n0", False))
        if stage.leaves is not None and AliveRules() in stage.leaves.columns:
            self.globals["alive"] = _text_of_rules(stage.leaves, _names_of(group))
        if self.sizes_travel:
            self.globals["sizes_of"] = _sizes_of

    def active_prefix(self) -> bool | None:
        """As for a whole rule; None in a later stage, which counts no anchors."""
        return None if self.template.stage is not None and self.template.stage.enters is not None else super().active_prefix()

    def anchor_event(self) -> None:
        """Appends the assignment of the parts of a binding, or those of the anchor, its
        constraints, and its count."""
        if self._stage.enters is None:
            super().anchor_event()
            return
        places = _bound_places(self.template, self._stage)
        parts = "".join([f"{'e' if self.template.is_positive(place) else 'g'}{place}, " for place in places])
        self.line(f"e0, rows0, n0, ({parts}) = binding" if parts else "e0, rows0, n0, _ = binding")
        for place in (0, *[place for place in places if self.template.is_positive(place)]):
            self.line(f"t{place}, o{place}, v{place} = e{place}")
        self.assign_now()
        if self.active_rows is not None:
            self.active_rows = "rows0"

    def note_size(self, place: int, *, per_rule: bool = False) -> None:
        """Assigns `b<place>`, the number of events that the clause has chosen, if bindings hold it:
        one number, or one per row if rows choose differently."""
        if not self.sizes_travel or self.exact:
            return
        self._write_before_loop(place)
        self.line(f"b{place} = {f'sizes_of(picked{place})' if per_rule else f'len(picked{place})'}")
        self._sizes.append((f"b{place}", per_rule))

    def _write_before_loop(self, place: int) -> None:
        """Assigns the texts that are invariant in the loop over a clause's events: `x<place>` and
        `y<place>`, the time and ordinal of earlier events, and `alive<rows>`, the rules."""
        for other in range(self._stage.first if self._stage.enters is not None else 0, place):
            if self.template.is_positive(other) and other not in self._written:
                self.line(f"x{other}, y{other} = str(t{other}), str(o{other})")
                self._written.add(other)
        leaves, rows = self._stage.leaves, self.active_rows
        if leaves is not None and AliveRules() in leaves.columns and rows is not None and rows not in self._alive:
            self.line(f"alive_{rows} = alive(tuple(map(number, {rows})))")
            self._alive.add(rows)

    def emit_match(self) -> None:
        """Appends the match, or the row of the binding if a further stage follows.

        For the event of one clause and the rules 0 to 2 of the stream, all satisfied so far:

            row = (alive_rows1, str(b1), x0, y0, v0[0], str(t1), …)
            found.append((rows1[0][0], 0, (e0,), row))
        """
        leaves = self._stage.leaves
        if leaves is None:
            super().emit_match()
            return
        if self.active_rows is None:
            self._send(leaves, "row[0]", "alive((row[0],))", self._product or "1" if self.exact else self._size("row"))
            self.limit_group()
        elif any(per_rule for _, per_rule in self._sizes):  # rules whose products differ have rows apart
            self.line("together = {}")
            self.line(f"for row in {self.active_rows}: together.setdefault({self._size('row')}, []).append(row)")
            with self.block("for size, some in together.items():"):
                self._send(leaves, "some[0][0]", "alive(tuple(map(number, some)))", "size")
            self.limit_group()
        else:
            rows = self.active_rows
            alive = f"alive_{rows}" if rows in self._alive else f"alive(tuple(map(number, {rows})))"
            self._send(leaves, f"{rows}[0][0]", alive, self._size(""))
            self.limit_group()

    def _size(self, row: str) -> str:
        """The source of the product of the numbers of events chosen so far."""
        return " * ".join([f"{name}[{row}[0]]" if per_rule else name for name, per_rule in self._sizes]) or "1"

    def _send(self, leaves: BindingStream, rule: str, alive: str, size: str) -> None:
        """Appends the row of a binding; `rule` is one of its rules."""
        items = "".join([f"{self._item(column, alive, size)}, " for column in leaves.columns])
        self.line(f"found.append(({rule}, 0, (e0,), ({items})))")

    def _item(self, column: BindingColumn, alive: str, size: str) -> str:
        match column:
            case AliveRules():
                return alive
            case BranchSize():
                return f"str({size})"
            case BoundTime(place):
                return f"x{place}" if place in self._written else f"str(t{place})"
            case BoundOrdinal(place):
                return f"y{place}" if place in self._written else f"str(o{place})"
            case BoundValue(place, name):
                return f"v{place}[{self.template.roles[place].attributes.index(name)}]"
            case AggregatedValue(place):
                return f"g{place}"
            case _:
                assert_never(column)


def _text_of_rules(leaves: BindingStream, names: Mapping[int, str]) -> Callable[[tuple[int, ...]], str]:
    """A function from rules (their numbers in the layer) to the text that identifies them among the
    rules of a stream."""
    number_of = {name: number for number, name in enumerate(leaves.rules)}

    @lru_cache(_REMEMBERED)
    def text(rules: tuple[int, ...]) -> str:
        return " ".join(map(str, sorted([number_of[names[rule]] for rule in rules])))

    return text


def _sizes_of(picked: Sequence[tuple[StoredEvent, Sequence[TableRow]]]) -> dict[Any, int]:
    """The number of events that each rule has chosen.

    >>> _sizes_of([((1, 0, ()), ((7, 0), (8, 0))), ((2, 0, ()), ((8, 0),))])
    {7: 1, 8: 2}
    """
    sizes: dict[Any, int] = {}
    for _, rows in picked:
        for row in rows:
            sizes[row[0]] = sizes.get(row[0], 0) + 1
    return sizes
