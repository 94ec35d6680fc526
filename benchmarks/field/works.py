"""The works of the benchmarks: each names its cases and the packages whose speed it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from benchmarks.field.measuring import Case


class Scale(Enum):
    """Size of a work: for `all`, for `quick`, and for the test that only counts."""

    FULL = "full"
    QUICK = "quick"
    HUNDREDTH = "hundredth"

    def of(self, full: int, quick: int | None = None) -> int:
        """A size at this scale.

        >>> Scale.HUNDREDTH.of(20_000), Scale.QUICK.of(20_000), Scale.FULL.of(20_000)
        (200, 4000, 20000)
        """
        match self:
            case Scale.FULL:
                return full
            case Scale.QUICK:
                return quick or max(1, full // 5)
            case Scale.HUNDREDTH:
                return max(1, full // 100)


class Text(NamedTuple):
    """Rules or a query of a system, for the appendix: the system and its task, the language, and the text."""

    title: str
    language: str
    text: str


def no_texts() -> Iterator[Text]:
    """No texts: the docstring of the work describes the input of every system."""
    return iter(())


Headlines: TypeAlias = Mapping[str, str]
"""Names of cases, and what one unit of each is in plain words."""


class Work(NamedTuple):
    """A benchmark: `cases` makes its input in a folder and yields one case after the other.

    `packages` are the paths whose change makes a result stale; `minutes` are those of a quiet machine with two cores; `axis` names the
    parameter that the plot has from left to right, if there is one, and `headlines` has the cases that the README shows, each with its
    words for it; `texts` gives the texts of the systems for the appendix; `nothing` is the reason why there may be no case.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    minutes: float
    cases: Callable[[Scale, Path], Iterator[Case]]
    axis: str | None = None
    headlines: Headlines = MappingProxyType({})
    texts: Callable[[], Iterator[Text]] = no_texts
    nothing: str = ""


def works() -> dict[str, Work]:
    """All works by name, in the order in which `all` runs them."""
    from benchmarks.field import aarhus, citybench, closing, growth, paper, spark, start, temporal_rules, windows

    found = [
        temporal_rules.WORK,
        windows.WORK,
        paper.WORK,
        closing.WORK,
        citybench.WORK,
        aarhus.WORK,
        growth.WORK,
        start.WORK,
        spark.WORK,
    ]
    return {work.name: work for work in found}
