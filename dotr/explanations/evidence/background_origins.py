"""Origins of background triples: a file, or the rule that derived the triple.

Idea: a compiled background keeps neither, so the sources are read again. A triple that no source
states is derived. Backward chaining over the closed background, up to a bounded number of triples,
finds a derivation from stated triples; the rule of its last step is the origin. A whole proof down
to stated triples closes the background once more (`close_background_in_rounds`).

Cost: one or two readings of the sources, about 2 µs a triple of theirs.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import ElementPlace
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.files.stores import Location
from dotr.evaluation.joins.order import Side
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.evidence.rounds import RoundsClosure, close_in_rounds
from dotr.explanations.evidence.rule_matches import ProvingRules, RuleMatch
from dotr.instant.datalog.background.loading import loaded_graphs, table_rows
from dotr.instant.datalog.closure.derivations import StratumDelta
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Triple

_A_LINE_EACH: Final = (".nt", ".nq", ".nt.gz", ".nq.gz")
"""Extensions of syntaxes with one statement per line."""
_MAX_EXPANDED: Final = 2_000
"""Maximum number of triples that backward chaining expands."""
_MAX_MATCHES: Final = 100
"""Maximum number of matches of a rule for one triple."""


class BackgroundOrigin(NamedTuple):
    """The origin of a background triple.

    Attributes:
        place: the file that states it, with the line if its syntax has one statement per line;
            None for a derived triple. A fact of a Datalog file has its file and line.
        rule: the rule of the last step that derives it; None for a stated triple, and for a triple
            that the sources no longer entail.
    """

    place: ElementPlace | None
    rule: DatalogRule | None


class BackgroundOrigins:
    """Origins of the background triples of a program, each found once and cached.

    Args:
        program: the program.
        rules: the rules of its background (`dotr.explanations.evidence.proofs.program_rules`).
    """

    def __init__(self, program: CompiledProgram, rules: ProvingRules) -> None:
        self._program = program
        self._rules = rules
        self._known: dict[Triple, BackgroundOrigin] = {}

    def of(self, triples: Collection[Triple]) -> Mapping[Triple, BackgroundOrigin]:
        """The origins of triples of the closed background, found in one reading of the sources.
        If a source can no longer be read, they have neither place nor rule.
        """
        targets = [triple for triple in dict.fromkeys(triples) if triple not in self._known]
        if targets:
            try:
                self._known.update(self._found(targets))
            except Refused:
                self._known.update(dict.fromkeys(targets, BackgroundOrigin(None, None)))
        return {triple: self._known[triple] for triple in triples}

    def _found(self, targets: Sequence[Triple]) -> Iterator[tuple[Triple, BackgroundOrigin]]:
        places = self._places(targets)
        yield from ((triple, BackgroundOrigin(place, None)) for triple, place in places.items())
        derived = [triple for triple in targets if triple not in places]
        if derived:
            yield from self._derived(derived)

    def _places(self, targets: Collection[Triple]) -> dict[Triple, ElementPlace]:
        """The first place of each triple that a source states; derived triples are left out."""
        remaining = set(targets)
        places: dict[Triple, ElementPlace] = {}
        for triple, place in stated_triples(self._program):
            if triple in remaining:
                remaining.discard(triple)
                places[triple] = place
                if not remaining:
                    break
        for rule in self._rules.rules:
            if remaining and not rule.rule.body and not rule.rule.of_rule_set:
                for match in rule.matches({}, self._program.knowledge.background, self._nothing):
                    for triple in match.conclusions():
                        if triple in remaining:
                            remaining.discard(triple)
                            places[triple] = rule_place(rule.rule)
        return places

    def _derived(self, targets: Sequence[Triple]) -> Iterator[tuple[Triple, BackgroundOrigin]]:
        """The rule of the last step of each triple."""
        matches = self._matches_behind(targets)
        stated = self._places([triple for triple in matches if triple not in targets])
        given: dict[Triple, RuleMatch] = {}
        grown = True
        while grown:
            grown = False
            for triple in [each for each in matches if each not in given and each not in stated]:
                for match in matches[triple]:
                    if all(premise in stated or premise in given for premise in match.premises):
                        given[triple], grown = match, True
                        break
        for triple in targets:
            behind = [match for match in matches[triple] if triple not in match.premises]
            last = given.get(triple) or (behind[0] if behind else None)
            yield triple, BackgroundOrigin(None, None if last is None else last.rule.rule)

    def _matches_behind(self, targets: Sequence[Triple]) -> dict[Triple, list[RuleMatch]]:
        """The matches that conclude some triples, and transitively those that conclude their
        premises, by conclusion; each list is in the tie order.
        """
        matches: dict[Triple, list[RuleMatch]] = {}
        pending = list(targets)
        for triple in pending:
            if triple in matches or len(matches) > _MAX_EXPANDED:
                continue
            found = matches[triple] = self._concluding(triple)
            pending += dict.fromkeys(premise for match in found for premise in match.premises if premise not in matches)
        return matches

    def _concluding(self, triple: Triple) -> list[RuleMatch]:
        background = self._program.knowledge.background
        found: list[RuleMatch] = []
        for rule, bound in self._rules.concluding(triple):
            if rule.may_match(background, self._nothing):
                for number, match in enumerate(rule.matches(bound, background, self._nothing, side=Side.BACKGROUND)):
                    if number == _MAX_MATCHES:
                        break
                    found.append(match)
        return sorted(found, key=lambda match: match.tie_order)

    @cached_property
    def _nothing(self) -> StratumDelta:
        """The delta of an instant without elements."""
        return StratumDelta(self._program.knowledge.lower_models(()))


def rule_place(rule: DatalogRule) -> ElementPlace:
    """The file and line of a Datalog rule; a row of a rule set has its name and no line."""
    if rule.of_rule_set or rule.span is None:
        return ElementPlace(rule.name, 0)
    return ElementPlace(rule.span.document.name, rule.span.line_column[0])


def stated_triples(program: CompiledProgram) -> Iterator[tuple[Triple, ElementPlace]]:
    """The triples of a program's graphs with their places, in their order, read from the files.

    Raises `Refused` if a graph can no longer be read.
    """
    reading, problems = program.spec.reading, list[Diagnostic]()
    tables = dict(reading.tables)
    for number, file, triples in loaded_graphs(program.spec.graphs, reading, problems):
        path = str(file)
        name, lines = _shown(path), list[int]()
        if number in tables:
            lines = [line for line, row in table_rows(path, number, reading) for _ in row]
        elif path.lower().endswith(_A_LINE_EACH):
            lines = _statement_lines(path)
        if len(lines) != len(triples):
            lines = [0] * len(triples)
        for triple, line in zip(triples, lines, strict=True):
            yield triple, ElementPlace(name, line)
    if problems:
        raise Refused(problems)


def _shown(path: str) -> str:
    """A path relative to the working directory, if that is shorter."""
    if Location(path).is_url:
        return path
    relative = os.path.relpath(path)
    return relative if len(relative) < len(path) else path


def _statement_lines(path: str) -> list[int]:
    """The line of each statement of a file with one statement per line, counted from 1."""
    with Location(path).open() as file:
        lines = gzip.GzipFile(fileobj=file) if path.lower().endswith(".gz") else file
        return [number for number, line in enumerate(lines, 1) if (text := line.strip()) and not text.startswith(b"#")]


def close_background_in_rounds(program: CompiledProgram, rules: ProvingRules) -> tuple[RoundsClosure, dict[Triple, ElementPlace]]:
    """Close the background of a program once more, in rounds.

    Returns:
        The closure with a derivation of least height of each triple, and the place of each stated
        triple.

    Raises:
        Refused: a graph can no longer be read.
    """
    places: dict[Triple, ElementPlace] = {}
    for triple, place in stated_triples(program):
        places.setdefault(triple, place)
    knowledge = program.knowledge
    goals = knowledge.background if any(rule.is_nonmonotonic for rule in rules.rules) else ()
    closed = close_in_rounds(rules, TripleIndex(), places, knowledge.lower_models(()), goals, with_facts=True)
    return closed, places
