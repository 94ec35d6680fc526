"""Retention of LARS files: the atoms of the stream that a file keeps, by predicate (lars.md, 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dotr.languages.lars.model import (
    Always,
    At,
    Counted,
    LarsAtom,
    LarsFile,
    LarsLiteral,
    LarsPredicate,
    Since,
    Sometime,
    TimeWindow,
    TupleWindow,
    predicate_of,
)
from dotr.model.time import Micros


@dataclass
class LarsRetention:
    """The retention of the atoms of a predicate.

    - `last`: the duration in µs for which the last point of each atom is kept.
    - `each`: the duration in µs for which all points of each atom are kept.
    - `counts`: the texts of the tuple windows over its atoms, each once.
    """

    predicate: LarsPredicate
    last: Micros = 0
    each: Micros = 0
    counts: list[str] = field(default_factory=list)


def retentions(file: LarsFile) -> list[LarsRetention]:
    """The retention of each predicate of the stream, in the order of the file.

    >>> from dotr.languages.lars.reading import compile_lars
    >>> from dotr.model.places import Document
    >>> text = "Q(?x) :- :p(?x, 1) IN [5 s], :q(?x, ?y) AT ?t IN [3 s], :q(?x, ?y) IN [LAST 2 PER ?x] ."
    >>> (file,) = compile_lars([Document("a.lars", text)], {"": "http://e/"}).checked().files
    >>> [(kept.last // 1_000_000, kept.each // 1_000_000, kept.counts) for kept in retentions(file)]
    [(5, 0, []), (0, 3, ['[LAST 2 PER ?x]'])]
    """
    found: dict[LarsPredicate, LarsRetention] = {}
    for literal in file.literals:
        for atom, least, greatest, each_point in reaches(literal, file.resolution):
            if file.may_be_streamed(atom):
                kept = found.setdefault(predicate_of(atom), LarsRetention(predicate_of(atom)))
                length = greatest * file.resolution
                if each_point or least > 0:
                    kept.each = max(kept.each, length)
                else:
                    kept.last = max(kept.last, length)
        window = window_of(literal)
        if isinstance(window, TupleWindow) and file.may_be_streamed(literal.atom):
            kept = found.setdefault(predicate_of(literal.atom), LarsRetention(predicate_of(literal.atom)))
            written = window_text(window)
            kept.counts += [written] if written not in kept.counts else []
    return list(found.values())


def reaches(literal: LarsLiteral, resolution: Micros) -> Iterator[tuple[LarsAtom, int, int, bool]]:
    """Each atom with the least and the greatest distance, in points, at which it is looked up; and
    whether all of its points are needed."""
    match literal.reach:
        case None:
            yield literal.atom, 0, 0, False
        case Sometime(TimeWindow() as window):
            yield literal.atom, *window.reach(resolution), False
        case Always(TimeWindow() as window) | At(_, TimeWindow() as window):
            yield literal.atom, *window.reach(resolution), True
        case Since(other, _, window):
            least, greatest = window.reach(resolution)
            yield literal.atom, 0, greatest, True
            yield other, least, greatest, True
        case Sometime() | Always() | At():
            pass


def window_of(literal: LarsLiteral) -> TimeWindow | TupleWindow | None:
    """The window of a literal; None without one."""
    match literal.reach:
        case None:
            return None
        case Sometime(window) | Always(window) | At(_, window) | Since(_, _, window):
            return window


def window_text(window: TupleWindow) -> str:
    """The text of a tuple window in a file."""
    match window.counted:
        case Counted.ALL:
            return f"[LAST {window.count}]"
        case Counted.MATCHING:
            return f"[LAST {window.count} MATCHING]"
        case Counted.PER:
            return f"[LAST {window.count} PER {', '.join(f'?{name}' for name in window.per)}]"
