"""Choice of a join order at run time: which of two patterns comes next is decided by their counts
for the values of the row.

Idea: the order of `dotr.evaluation.joins.order` follows averages, and is unknown for what is
derived later. Where patterns of a body restrict each other, since they bind the same variable or
what is left of the body links their variables, the generated code compares how many triples each
would visit for this row, and goes on with the fewest. Its rivals become tests, or are looked up by
a further term.

`?b <floor> ?f` and `?b <door> ?x` bind one variable, and share what follows:

    w0 = len(d1.get(v_f, NO_TERMS))
    w1 = len(d2.get(v_x, NO_TERMS))
    if w0 <= w1:
        w2 = d1.get(v_f, NO_TERMS)
    else:
        w2 = d2.get(v_x, NO_TERMS)
    for v_b in w2:
        if (v_b, k1, v_f) not in s3: continue
        if (v_b, k2, v_x) not in s3: continue

`?b <floor> ?f` and `?x <door> ?y` with `?b <at> ?y` left: what follows is written for each.

    if w0 <= w1:
        for v_b in d1.get(v_f, NO_TERMS):
            for v_y in d4.get(v_b, NO_TERMS): …
    else:
        for v_y in d2.get(v_x, NO_TERMS):
            for v_b in d5.get(v_y, NO_TERMS): …

Invariant: every alternative joins every item, so a match is found once, whatever is chosen. Counts
depend on the triples in the indexes, not on the order in which they came.
Cost: two look-ups and a comparison a row at each choice, and at most `_LEAVES` copies of the rest
of a body. A body whose patterns do not restrict each other is as `ordered` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, cast

from dotr.evaluation.codegen.tree import Block, IfElse
from dotr.evaluation.joins.compile import JoinWriter, Row
from dotr.evaluation.joins.order import JoinItem, JoinStep, Side, ordered
from dotr.model.algebra import TriplePattern
from dotr.model.datalog import RelationAtom
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables

_LEAVES: Final = 8
"""Maximum number of orders of one body that are written."""
_FEW_LEFT: Final = 4
"""Number of patterns up to which a look-up by the subject is compared with others."""
_FEW_ROWS: Final = 8
"""Number of constant rows that are tested one by one."""


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
            if self.in_bulk and isinstance(item, TriplePattern) and self.name_of(item.predicate) is None:
                known = [each for each in left if isinstance(each, TriplePattern) and self._is_met(each)]
                if known:  # a predicate that is not bound yet needs tables of all triples
                    first = cast("tuple[TriplePattern, Side]", self._ordered(known)[0])[0]
                    self._write_first(first, left, conclude, leaves)
                    return
            if isinstance(item, TriplePattern) and (rivals := self._rivals(item, left, leaves)):
                if len(names := self._free(item)) == 1 and names == self._free(rivals[0]):
                    self._loop_over_least([item, *rivals])
                    self.write_chosen(left, conclude, leaves)
                else:
                    patterns = [item, *rivals]
                    self._choose(
                        list(map(self._count_of, patterns)),
                        [partial(self._write_first, each, left, conclude, leaves // 2) for each in patterns],
                    )
                return
            left.remove(item)
            self.write_steps([step])
        conclude()

    def _write_first(self, first: TriplePattern, items: Sequence[JoinItem], conclude: Callable[[], None], leaves: int) -> None:
        self.write_pattern(first, Side.BOTH)
        self.write_chosen([each for each in items if each is not first], conclude, leaves)

    def write_rows(self, names: Sequence[Variable], rows: tuple[Row, ...], items: Sequence[JoinItem], conclude: Callable[[], None]) -> None:
        """Writes a join of constant rows and items. Where the rows are many, and a pattern's other end
        is one of their variables, they are looked up by it, if the pattern has fewer triples:

            w0 = len(d1.get(o, NO_TERMS))
            if w0 <= n2:
                for v_y in d1.get(o, NO_TERMS):
                    for v_x, in r3.get(v_y, NO_TERMS): …
            else:
                for v_x, v_y in r4:
                    if (o, k5, v_y) not in s6: continue
        """
        partner = next((item for item in items if isinstance(item, TriplePattern) and self._finds_row(item, names)), None)
        if partner is None or len(rows) <= _FEW_ROWS:
            self.loop_over_rows(names, rows)
            self.write_chosen(items, conclude)
            return

        def by_value() -> None:
            name = self._free(partner).pop()
            self.write_pattern(partner, Side.BOTH)
            place, found = names.index(name), dict[Term | None, list[Row]]()
            for row in rows:
                found.setdefault(row[place], []).append((*row[:place], *row[place + 1 :]))
            others = [each for each in names if each != name]
            self.loop(self.targets(others), f"{self.parameter('r', found)}.get({self.read(name)}, NO_TERMS)")
            self.write_chosen([each for each in items if each is not partner], conclude)

        def all_rows() -> None:
            self.loop_over_rows(names, rows)
            self.write_chosen(items, conclude)

        self._choose([self._count_of(partner), self.parameter("n", len(rows))], [by_value, all_rows])

    def _finds_row(self, pattern: TriplePattern, names: Collection[Variable]) -> bool:
        """True for a pattern with a bound predicate and end, whose other end is one of the names."""
        free = self._free(pattern)
        return len(free) == 1 and free.issubset(names) and self.name_of(pattern.predicate) is not None and pattern.subject != pattern.object

    def _ordered(self, items: Sequence[JoinItem]) -> list[JoinStep]:
        return ordered(items, self.names, Side.BOTH, None if self.in_bulk else self.index)

    def _free(self, item: JoinItem) -> set[Variable]:
        return set(free_variables(item)).difference(self.names)

    def _rivals(self, pattern: TriplePattern, left: Collection[JoinItem], leaves: int) -> list[TriplePattern]:
        """The patterns of `left` that may come in the place of `pattern`: those that bind the same
        variable; else the best of those that are linked with it through free variables.
        """
        names = linked = self._free(pattern)
        if not names or not self._can_count(pattern):
            return []
        by_subject = self.name_of(pattern.subject) is not None
        if not self.in_bulk and (by_subject or self.index is None):  # a masked list is filled to be counted
            return []
        waiting = [item for item in left if item is not pattern and isinstance(item, TriplePattern | RelationAtom)]
        can_branch = leaves > 1 and not (by_subject and len(waiting) >= _FEW_LEFT)
        found: list[TriplePattern] = []
        while (item := next((each for each in waiting if linked & self._free(each)), None)) is not None:
            waiting.remove(item)
            linked = linked | self._free(item)
            if isinstance(item, TriplePattern) and self._can_count(item):
                found.append(item)
        if len(names) == 1 and (same := [each for each in found if self._free(each) == names]):
            return same
        return [cast("tuple[TriplePattern, Side]", self._ordered(found)[0])[0]] if found and can_branch else []

    def _is_met(self, pattern: TriplePattern) -> bool:
        """True for a pattern with a known predicate and a bound variable."""
        return self.name_of(pattern.predicate) is not None and any(name in self.names for name in free_variables(pattern))

    def _can_count(self, pattern: TriplePattern) -> bool:
        if self.name_of(pattern.predicate) is None or pattern.subject == pattern.object:
            return False
        return self.in_bulk or self.name_of(pattern.subject) is not None or self.name_of(pattern.object) is not None

    def _loop_over_least(self, patterns: Sequence[TriplePattern]) -> None:
        """Writes a loop over the shortest list of patterns that bind one variable; all of them are
        left as tests.
        """
        target = self.temporary()

        def assign(pattern: TriplePattern) -> None:
            access, end, known = self._end_of(pattern)
            side, fixed = self._side_of(pattern), self.known_term(pattern.predicate)
            self.assign(target, self._other_ends(access, self.name_of(pattern.predicate) or "", end, side, fixed, known))

        self._choose(list(map(self._count_of, patterns)), [partial(assign, each) for each in patterns])
        self._loop([patterns[0].object if self._end_of(patterns[0])[0] == "by_subject" else patterns[0].subject], target)

    def _choose(self, counts: Sequence[str], writers: Sequence[Callable[[], None]]) -> None:
        """Writes what is written for the least count, the first of equals."""
        block = self._loop_block
        names = [self.temporary() for _ in counts]
        for name, count in zip(names, counts, strict=True):
            self.assign(name, count)
        blocks: list[Block] = []
        for write in writers:
            with self.branch(blocks):
                write()
        # Of the counts w0, w1, w2: w0 <= w1 and w0 <= w2; w1 <= w2; else.
        tests = [" and ".join(f"{name} <= {other}" for other in names[n + 1 :]) for n, name in enumerate(names[:-1])]
        block.append(IfElse(list(zip(tests, blocks, strict=False)), blocks[-1]))

    def _count_of(self, pattern: TriplePattern) -> str:
        """The expression of the number of triples that a pattern visits; without a bound end, of the
        subjects of its predicate.
        """
        access, end, known = self._end_of(pattern)
        side, fixed, predicate = self._side_of(pattern), self.known_term(pattern.predicate), self.name_of(pattern.predicate) or ""
        look_up = f".get({end}, NO_TERMS)" if end else ""
        if fixed is None:
            tables = [f"{self._index_name(each)}.{access}.get({predicate}, NO_ENDS)" for each in (Side.BACKGROUND, Side.DELTA)]
            return " + ".join(f"len({table}{look_up})" for table in tables)
        delta = self._delta_table(access, predicate, needed=side is Side.DELTA)
        if side is Side.DELTA:
            return f"len({delta}{look_up})"
        lists = self._background_list(access, predicate, end, fixed, known) if end else self._background_table(access, predicate, fixed)
        return f"(len({lists}) if {delta} is None else len({lists}) + len({delta}{look_up}))"

    def _end_of(self, pattern: TriplePattern) -> tuple[str, str, Term | None]:
        """The table and the bound end by which a pattern is looked up, and its term if it is known;
        without a bound end, the end is empty.
        """
        subject, object = self.name_of(pattern.subject), self.name_of(pattern.object)
        if subject is None and object is not None:
            return "by_object", object, self.known_term(pattern.object)
        return "by_subject", subject or "", self.known_term(pattern.subject)

    def _side_of(self, pattern: TriplePattern) -> Side:
        fixed = self.known_term(pattern.predicate)
        return Side.DELTA if self.index is not None and fixed is not None and fixed not in self.index.by_subject else Side.BOTH
