"""Choice of a join order at run time: which of two patterns comes next is decided by their counts for
the values of the row.

Idea: the order of `dotr.evaluation.joins.order` follows averages, and is unknown to what is derived
later. Where two patterns of a body restrict each other, since what is left of the body links their
free variables, the generated code compares how many triples each would visit for this row, and
goes on with the fewer; the other one has become a test, or is looked up by a further term.

`?b <floor> ?f` and `?x <door> ?y`, with `?f` and `?x` bound and `?b <at> ?y` left:

    w0 = len(d1.get(v_f, NO_TERMS))
    w1 = len(d2.get(v_x, NO_TERMS))
    if w0 <= w1:
        for v_b in d1.get(v_f, NO_TERMS): …
    else:
        for v_y in d2.get(v_x, NO_TERMS): …

Invariant: every alternative joins every item, so a match is found once, whatever is chosen. A count
depends on the triples that the indexes hold, not on the order in which they came.
Cost: two look-ups and a comparison a row at each choice, and at most `_LEAVES` copies of the rest of
a body. A body whose patterns do not restrict each other is as `ordered` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, cast

from dotr.evaluation.codegen.tree import Block, IfElse
from dotr.evaluation.joins.compile import JoinWriter
from dotr.evaluation.joins.order import JoinItem, JoinStep, Side, ordered
from dotr.model.algebra import TriplePattern
from dotr.model.datalog import RelationAtom
from dotr.model.terms import Variable
from dotr.model.traverse import free_variables

_LEAVES: Final = 8
"""Maximum number of orders of one body."""


class ChoosingWriter(JoinWriter):
    """A writer of joins whose order depends on the row.

    `in_bulk`: many triples are joined at once, whose counts no background tells: a pattern without
      a bound end is an alternative, too, by the count of its predicate. Otherwise what is looked up
      by its subject is taken for few.
    """

    in_bulk: bool = False

    def write_chosen(self, items: Sequence[JoinItem], conclude: Callable[[], None], leaves: int = _LEAVES) -> None:
        """Writes items in the order that is chosen at run time, then what `conclude` writes."""
        left = list(items)
        for step in self._ordered(items):
            item = step[0] if isinstance(step, tuple) else step
            left.remove(item)
            if isinstance(item, TriplePattern) and leaves > 1 and (rivals := self._rivals(item, left)):
                self._choose([item, *rivals], [item, *left], conclude, leaves // (len(rivals) + 1))
                return
            self.write_steps([step])
        conclude()

    def _ordered(self, items: Sequence[JoinItem]) -> list[JoinStep]:
        return ordered(items, self.names, Side.BOTH, None if self.in_bulk else self.index)

    def _rivals(self, pattern: TriplePattern, left: Collection[JoinItem]) -> list[TriplePattern]:
        """The patterns of `left` that may come before `pattern`: the best of those that are linked
        with it through free variables, and two where all three bind the same variables.
        """
        names = linked = self._free(pattern)
        if not names or not self._is_countable(pattern) or not (self.in_bulk or self.name_of(pattern.subject) is None):
            return []
        waiting = [item for item in left if isinstance(item, TriplePattern | RelationAtom)]
        rivals: list[TriplePattern] = []
        while (item := next((each for each in waiting if linked & self._free(each)), None)) is not None:
            waiting.remove(item)
            linked = linked | self._free(item)
            if isinstance(item, TriplePattern) and self._is_countable(item):
                rivals.append(item)
        best: list[TriplePattern] = []
        while rivals and (not best or (len(best) < 2 and self._free(best[0]) == names)):
            best.append(cast("tuple[TriplePattern, Side]", self._ordered(rivals)[0])[0])
            rivals.remove(best[-1])
        return best if len(best) < 2 or self._free(best[1]) == names else best[:1]

    def _choose(self, alternatives: Sequence[TriplePattern], items: Sequence[JoinItem], conclude: Callable[[], None], leaves: int) -> None:
        """Writes the choice between patterns, each with the rest of the items."""
        block = self._loop_block
        counts = [self.temporary() for _ in alternatives]
        for count, each in zip(counts, alternatives, strict=True):
            self.assign(count, self._count_of(each))
        blocks: list[Block] = []
        for each in alternatives:
            rest = list(items)
            rest.remove(each)
            with self.branch(blocks):
                self.write_pattern(each, Side.BOTH)
                self.write_chosen(rest, conclude, leaves)
        # Of the counts w0, w1, w2: w0 <= w1 and w0 <= w2; w1 <= w2; else.
        tests = [" and ".join(f"{count} <= {other}" for other in counts[n + 1 :]) for n, count in enumerate(counts[:-1])]
        block.append(IfElse(list(zip(tests, blocks, strict=False)), blocks[-1]))

    def _free(self, item: JoinItem) -> set[Variable]:
        return set(free_variables(item)).difference(self.names)

    def _is_countable(self, pattern: TriplePattern) -> bool:
        if self.name_of(pattern.predicate) is None:
            return False
        return self.in_bulk or self.name_of(pattern.subject) is not None or self.name_of(pattern.object) is not None

    def _count_of(self, pattern: TriplePattern) -> str:
        """The expression of the number of triples that a pattern visits; without a bound end, of the
        subjects of its predicate.
        """
        subject, predicate, object = (self.name_of(slot) for slot in (pattern.subject, pattern.predicate, pattern.object))
        fixed = self.known_term(pattern.predicate)
        end, other = (subject, pattern.subject) if subject or not object else (object, pattern.object)
        access = "by_object" if end is object is not None else "by_subject"
        assert predicate is not None
        look_up = f".get({end}, NO_TERMS)" if end else ""
        if fixed is None:
            tables = [f"{self._index_name(side)}.{access}.get({predicate}, NO_ENDS)" for side in (Side.BACKGROUND, Side.DELTA)]
            return " + ".join(f"len({table}{look_up})" for table in tables)
        needed = self.index is not None and fixed not in self.index.by_subject
        delta = self._delta_table(access, predicate, needed=needed)
        of_delta = f"len({delta}{look_up})"
        if needed:
            return of_delta
        if end:
            background = self._background_list(access, predicate, end, fixed, self.known_term(other))
        else:
            background = self._background_table(access, predicate, fixed)
        return f"(len({background}) if {delta} is None else len({background}) + {of_delta})"
