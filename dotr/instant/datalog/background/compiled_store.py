"""Compiled store: closed background knowledge in a file.

Section `about` holds, as JSON, the results of the closure (contradictions, counts, seconds), beside
the sections of the dictionary and the columns.

Cost: writing takes about 5 µs a triple; opening 1 to 2 ms, whatever the size.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from dotr.evaluation.triples.dictionary import dictionary_sections
from dotr.evaluation.triples.file import Buffer, MappedFile, UnusableFile, write_file
from dotr.evaluation.triples.mapped_index import ColumnWriter, mapped_strata
from dotr.instant.datalog.background.knowledge import ClosedTriples, Knowledge
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.strata.bulk_strata import TripleDifference
from dotr.instant.datalog.strata.delete_and_rederive import StratumIndexes
from dotr.instant.datalog.strata.stratification import is_nonmonotonic
from dotr.instant.datalog.strata.stratum_rules import StratifiedProgram
from dotr.model import dataclass
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """Summary of a compiled store.

    `by_rule`: the number of triples that each rule was the first to derive. `seconds`: the time of
      reading and closing the sources.
    `by_representatives`, `needs_strata`: as in `ClosedTriples` and `StratumIndexes`.
    """

    loaded: int
    derived: int
    terms: int
    by_rule: Mapping[str, int]
    contradictions: tuple[Contradiction, ...]
    seconds: float
    by_representatives: bool
    needs_strata: bool


def write_store(path: Path, key: bytes, closed: ClosedTriples, seconds: float) -> None:
    """Writes a closed background; raises OSError or `StoreCapacityExceeded`."""
    numbers: defaultdict[Term, int] = defaultdict(count().__next__)
    every = chain.from_iterable(chain.from_iterable(closed.by_predicate.values()))
    deque(map(numbers.__getitem__, every), maxlen=0)
    columns = ColumnWriter(numbers, _strata(closed))
    about = {
        "loaded": closed.loaded,
        "derived": len(closed.triples) - closed.loaded,
        "terms": len(numbers),
        "by_rule": dict(closed.by_rule),
        "contradictions": closed.contradictions,
        "seconds": seconds,
        "by_names": closed.by_representatives,
        "apart": closed.stratum_sizes is not None and closed.stratum_sizes.needs_strata,
    }
    sections: dict[str, Iterable[Buffer]] = {
        **dictionary_sections(list(numbers)),
        "triples": columns.triples(),
        "predicates": columns.predicates(),
        "about": (json.dumps(about, ensure_ascii=False).encode("utf-8", "surrogatepass"),),
    }
    write_file(path, key, sections)


def _strata(closed: ClosedTriples) -> Iterator[tuple[int, Term, Sequence[Triple]]]:
    """(stratum, predicate, triples): first those of the whole, then those of each lower stratum in
    which the predicate has fewer triples than in the next.
    """
    sizes = () if closed.stratum_sizes is None else closed.stratum_sizes.sizes
    for predicate, triples in closed.by_predicate.items():
        yield len(sizes), predicate, triples
    for stratum, counts in enumerate(sizes):
        counts_above: Mapping[Term, int] = sizes[stratum + 1] if stratum + 1 < len(sizes) else {}
        for predicate, count_here in counts.items():
            if counts_above.get(predicate) != count_here:
                yield stratum, predicate, closed.by_predicate[predicate][:count_here]


class CompiledStore:
    """An opened store; raises `UnusableFile` for a damaged or foreign file, OSError for a missing
    one.

    `key`: the expected key; None: any. `shared`: the file is used whoever owns it.
    """

    def __init__(self, path: Path, key: bytes | None = None, *, shared: bool = False) -> None:
        self.file = MappedFile(path, key, shared=shared)
        self.strata = mapped_strata(self.file)
        self.index = self.strata[-1]
        self.summary = _summary(bytes(self.file.view("about")))
        if len(self.index) != self.summary.loaded + self.summary.derived:
            raise UnusableFile("is damaged: its triples differ from their recorded number")

    def knowledge(self, rules: Sequence[DatalogRule]) -> Knowledge:
        """Knowledge under the rules that the store was closed under."""
        summary = self.summary
        stratum_indexes = None
        if any(map(is_nonmonotonic, rules)):
            program = StratifiedProgram(rules)
            upper_static = TripleDifference(self.index.triples, self.strata[0].triples)
            has_strata = not program.shares_index and len(self.strata) == program.depth  # an empty background has one level
            stratum_indexes = StratumIndexes(
                self.strata if has_strata else [self.index] * program.depth, upper_static, summary.needs_strata
            )
        return Knowledge.from_index(
            self.index,
            rules,
            summary.contradictions,
            summary.loaded,
            by_representatives=summary.by_representatives,
            stratum_indexes=stratum_indexes,
        )


def _summary(text: bytes) -> StoreSummary:
    try:
        data = json.loads(text.decode("utf-8", "surrogatepass"))
        contradictions = tuple(Contradiction(rule, tuple((s, p, o) for s, p, o in triples)) for rule, triples in data["contradictions"])
        return StoreSummary(
            data["loaded"],
            data["derived"],
            data["terms"],
            data["by_rule"],
            contradictions,
            data["seconds"],
            data["by_names"],
            data["apart"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UnusableFile(f"is damaged: {error}") from None
