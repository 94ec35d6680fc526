"""Chains of EP-SPARQL: operands joined by temporal operators, with FILTER, BIND and WITHIN.

Idea: recursive descent over the lexemes of a unit. A group without a temporal word is plain: the
SPARQL grammar parses it. A part with an error records its problem and has the pattern None, and
parsing continues behind it. Bounds are computed later (`bounds.py`).
Source: ep-sparql.md, sections 1, 2 and 6.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.expressions import ParsedExpression, parse_interval_expression
from dotr.languages.epsparql.text.keywords import MODIFIERS, OPERATORS, SEQUENCES
from dotr.languages.epsparql.text.lexemes import TemporalWord, UnitCursor, UnreadablePart, clipped
from dotr.languages.epsparql.text.operands import (
    BareOperand,
    BracedOperand,
    ChainPlaces,
    Condition,
    ParsedChain,
    ParsedOperand,
    is_union,
    read_plain_group,
)
from dotr.model import dataclass
from dotr.model.algebra import Expression
from dotr.model.places import Span
from dotr.model.terms import XSD, Variable
from dotr.model.time import Micros
from dotr.syntax.quantities import InvalidDuration, parse_duration
from dotr.syntax.sparql.tokens import resolve_name
from dotr.temporal.intervals.patterns import Alternatives, Combination, EventRead, TemporalOperator, visible_variables

MAX_OPERANDS: Final = 64
MAX_DEPTH: Final = 32
_OPERAND: Final = (
    "An operand is { … }, or EVENT Label(?attribute AS ?variable); operators are SEQ, EQUALS, AND, OPTIONALSEQ and EQUALSOPTIONAL."
)
_DURATION: Final = "A length of time is written 10 s, 5 min, 1 h 30 min or PT5M."
_PLAIN_WORDS: Final = {
    "OPTIONAL": "OPTIONAL",
    "MINUS": "MINUS",
    "VALUES": "VALUES",
    "SELECT": "a sub-SELECT",
}
_END_OF_DURATION: Final = ("POLICY", "FILTER", "BIND", "WITHIN", "UNION", *OPERATORS, "SEQOPTIONAL", *MODIFIERS)


@dataclass(slots=True)
class ChainReader:
    """Reader of the chains of one unit; problems are recorded in the cursor's scan.

    - `places`: collects the places of WITHINs and conditions.
    - `operands`, `depth`: number of operands so far, and of braces around the cursor.
    """

    cursor: UnitCursor
    places: ChainPlaces = field(default_factory=ChainPlaces)
    operands: int = 0
    depth: int = 0

    # --- chains ---

    def chain(self, *, is_union: bool = False) -> ParsedChain:
        """Read `BRANCHES (OPERATOR BRANCHES)* (FILTER | BIND)* (WITHIN DURATION)?`.

        `is_union`: the group has only UNION and FILTERs, some of which may precede the UNION.
        Raises `UnreadablePart` at a syntax error between the parts of the chain.
        """
        cursor = self.cursor
        first, before = cursor.position, len(cursor.scan.problems)
        bindings: list[tuple[Variable, Expression]] = []
        conditions: list[Condition] = []
        is_bare = True
        while is_union and cursor.is_word("FILTER"):
            is_bare = False
            conditions += self._filter()
        parsed = self._operators()
        while cursor.is_word("FILTER") or cursor.is_word("BIND"):
            is_bare = False
            if cursor.is_word("FILTER"):
                conditions += self._filter()
            else:
                self._bind(parsed, bindings)
        within: Micros | None = None
        if cursor.is_word("WITHIN"):
            is_bare = False
            within = self._within()
            if cursor.is_word("FILTER") or cursor.is_word("BIND"):
                word = cursor.here.text.upper()
                raise self._error(TemporalCode.WRONG_ORDER, f"{word} behind WITHIN", f"Write {word} before WITHIN.")
        if self._operator_here() is not None:
            hint = "FILTER, BIND and WITHIN stand behind the last operand, or end a part in braces: { {A} SEQ {B} FILTER(…) } SEQ {C}."
            raise self._error(TemporalCode.UNEXPECTED, f"{clipped(cursor.here.text)} behind the end of a chain", hint)
        if len(cursor.scan.problems) > before:
            return ParsedChain(None, is_bare)
        if is_bare or parsed is None:
            return ParsedChain(parsed, is_bare)
        place = cursor.span_since(first)
        return ParsedChain(BracedOperand(parsed.closed(), tuple(bindings), tuple(conditions), within, place), is_bare=False)

    def _operators(self) -> ParsedOperand | None:
        """`BRANCHES (OPERATOR BRANCHES)*`; any other part is reported and skipped."""
        left = self._union()
        while True:
            if self._skip_plain_parts():
                left = None
            if self.cursor.is_mark("{") or self.cursor.is_word("EVENT"):
                hint = "Write AND between them, or SEQ; triples of one time can stand in one pair of braces."
                place = self.cursor.span_of(self.cursor.here)
                self.cursor.report(TemporalCode.BESIDE_OPERATORS, "two groups side by side", place, hint)
                self._union()
                left = None
                continue
            operator = self._operator_here()
            if operator is None:
                return left
            place = self.cursor.span_of(self.cursor.here)
            self.cursor.position += 1
            right = self._union()
            left = None if left is None or right is None else BareOperand(self._combination(operator, left, right, place))

    def _skip_plain_parts(self) -> bool:
        """Report and skip triples, OPTIONAL, MINUS, VALUES or SELECT next to operands.

        Returns True if there are any.
        """
        cursor = self.cursor
        word = cursor.here.text.upper() if cursor.here.group == "word" else ""
        if word in _PLAIN_WORDS:
            what = _PLAIN_WORDS[word]
            hint = f"Put it into the braces of a plain group: {{ ?x :p ?y {word} … }}; an optional part in the past is OPTIONALSEQ."
        elif cursor.here.group in ("variable", "iri", "pname", "blank") or cursor.here.text in ("[", "<<"):
            what = "triples"
            hint = "Put the triples into braces of their own, a plain group: { ?x :p ?y }."
        else:
            return False
        cursor.report(TemporalCode.BESIDE_OPERATORS, f"{what} next to temporal operators", cursor.span_of(cursor.here), hint)
        if word in ("OPTIONAL", "MINUS") and cursor.at(1).text == "{":
            cursor.position = cursor.closing(cursor.position + 1) + 1
        elif word == "VALUES":
            cursor.position = cursor.find(marks=("{",))
            cursor.position = min(cursor.closing(cursor.position) + 1, cursor.end) if cursor.position < cursor.end else cursor.end
        else:
            cursor.position = cursor.find("EVENT", *_END_OF_DURATION, *_PLAIN_WORDS, marks=("{", "}"))
        return True

    def _combination(self, operator: TemporalOperator, left: ParsedOperand, right: ParsedOperand, place: Span) -> Combination:
        conditions: tuple[Condition, ...] = ()
        match operator:
            case TemporalOperator.OPTIONALSEQ:
                first, conditions = left.opened()
                second = right.closed()
            case TemporalOperator.EQUALSOPTIONAL:
                first = left.closed()
                second, conditions = right.opened()
            case _:
                first, second = left.closed(), right.closed()
        self._record_places(conditions)
        return Combination(operator, first, second, tuple(condition for condition, _ in conditions), None, None, place)

    def _operator_here(self) -> TemporalOperator | None:
        """The operator at the cursor, which is not taken; None without one."""
        lexeme = self.cursor.here
        if lexeme.group != "word":
            return None
        if lexeme.text.upper() == "SEQOPTIONAL":
            hint = "That a later part is absent is known too late. Write OPTIONALSEQ, whose optional part comes first."
            raise self._error(TemporalCode.SEQOPTIONAL, "SEQOPTIONAL would change what was output", hint)
        return OPERATORS.get(lexeme.text.upper())

    def _union(self) -> ParsedOperand | None:
        """`BRANCHES`: `OPERAND (UNION OPERAND)*`."""
        branches = [self._operand()]
        while self.cursor.take_words("UNION"):
            branches.append(self._operand())
        if len(branches) == 1:
            return branches[0]
        patterns = [branch.closed() for branch in branches if branch is not None]
        return BareOperand(Alternatives(tuple(patterns))) if len(patterns) == len(branches) else None

    # --- operands ---

    def _operand(self) -> ParsedOperand | None:
        self.operands += 1
        if self.operands > MAX_OPERANDS:
            raise self._error("Q117", f"a unit of more than {MAX_OPERANDS} operands", "Split it: EVENT reads what another unit makes.")
        cursor = self.cursor
        if cursor.is_word("EVENT"):
            return self._event()
        if cursor.is_mark("{"):
            return self._braces()
        word = cursor.here.text.upper() if cursor.here.group == "word" else ""
        if self._skip_plain_parts():
            if cursor.is_word("EVENT") or cursor.is_mark("{") or cursor.here.text.upper() in _PLAIN_WORDS:
                self._operand()
            return None
        if word in ("FILTER", "BIND"):
            hint = f"{word} stands behind the last operand of its chain."
            raise self._error(TemporalCode.UNEXPECTED, f"{word} before an operand", hint)
        expected = did_you_mean(word, ["EVENT", *OPERATORS]) if word else ""
        raise cursor.unexpected("an operand, { … } or EVENT", expected or _OPERAND)

    def _braces(self) -> ParsedOperand | None:
        """`{ … }`: a chain if it has a temporal word, or only UNION and FILTERs; else plain."""
        cursor = self.cursor
        opened = cursor.position
        closed = cursor.closing(opened)
        cursor.position = closed + 1
        words = cursor.temporal_words(opened + 1, closed)
        span = cursor.span_between(opened, closed + 1)
        if not words and not is_union(cursor, opened + 1, closed):
            return read_plain_group(cursor.inner_span(opened, closed), span, cursor.scan)
        if self._report_nested_words(words) and all(word.inside for word in words):
            return None
        if self.depth >= MAX_DEPTH:
            raise self._error("Q117", f"this is nested more than {MAX_DEPTH} deep", "Split it: EVENT reads what another unit makes.", span)
        inner = ChainReader(cursor.part(opened + 1, closed), self.places, self.operands, self.depth + 1)
        result = inner.braced_chain(span, is_union=not words)
        self.operands = inner.operands
        return result

    def braced_chain(self, span: Span, *, is_union: bool = False) -> BracedOperand | None:
        """Read a chain of all lexemes of the cursor; `span` is its place, with its braces."""
        cursor = self.cursor
        problems = cursor.scan.problems
        try:
            result = self.chain(is_union=is_union)
            if cursor.position < cursor.end:
                raise self.unexpected_end()
        except UnreadablePart as unreadable:
            problems.append(unreadable.diagnostic)
            self.check_remaining_groups()
            return None
        if result.operand is None or (isinstance(result.operand, BracedOperand) and not result.is_bare):
            return result.operand
        return BracedOperand(result.operand.closed(), (), (), None, span)

    def unexpected_end(self) -> UnreadablePart:
        """The error of a lexeme behind the end of a chain, for the caller to raise."""
        cursor = self.cursor
        word = cursor.here.text.upper() if cursor.here.group == "word" else ""
        if word == "POLICY":
            return self._error(TemporalCode.WRONG_ORDER, "POLICY inside braces", "It is of the whole unit: write it at the end.")
        if word in SEQUENCES:
            return cursor.unexpected("an operator", "Write SEQ: { ?x :p ?y } SEQ { ?x :q ?z } WITHIN 10 min.")
        near = did_you_mean(word, [*OPERATORS, "UNION", "FILTER", "BIND", "WITHIN", "POLICY"]) if word else ""
        return cursor.unexpected("an operator, UNION, FILTER, BIND, WITHIN or the end", near or _OPERAND)

    def check_remaining_groups(self) -> None:
        """Record the problems of the groups behind a syntax error; their patterns are dropped."""
        cursor = self.cursor
        while cursor.position < cursor.end:
            if cursor.is_mark("{"):
                try:
                    self._braces()
                except UnreadablePart as unreadable:
                    cursor.scan.problems.append(unreadable.diagnostic)
                    return
            else:
                cursor.position += 1

    def _report_nested_words(self, words: Sequence[TemporalWord]) -> bool:
        """Report the first temporal word inside OPTIONAL, MINUS, EXISTS or a sub-SELECT.

        Returns True if there is one.
        """
        found = [word for word in words if word.inside]
        for word in found[:1]:
            place = self.cursor.span_of(word.lexeme)
            inside = "a sub-SELECT" if word.inside == "SELECT" else word.inside
            hint = (
                f"{inside} is SPARQL's, at one instant. An optional part in the past is OPTIONALSEQ; its absence, !BOUND of its variable."
            )
            self.cursor.report(TemporalCode.INSIDE_PLAIN, f"{word.lexeme.text.upper()} inside {inside}", place, hint)
        return bool(found)

    def _event(self) -> BareOperand | None:
        """`EVENT L(?a AS ?x, …)`."""
        cursor = self.cursor
        first = cursor.position
        cursor.position += 1
        lexeme = cursor.here
        if lexeme.group != "word":
            raise cursor.unexpected("the label of events", "Write EVENT Label(?attribute AS ?variable, …), or EVENT Label.")
        cursor.position += 1
        label_span = cursor.span_of(lexeme)
        attributes: list[tuple[Variable, Variable]] = []
        is_valid = True
        if cursor.take_mark("(") and not cursor.take_mark(")"):
            while True:
                name, place = self._variable("an attribute, ?name")
                variable, own = self._variable("a variable, ?name") if cursor.take_words("AS") else (name, place)
                if variable in [known for _, known in attributes]:
                    hint = "Give each attribute a variable of its own, and compare them in a FILTER."
                    cursor.report(TemporalCode.ATTRIBUTES_IN_ONE, f"?{variable} is of two attributes", own, hint)
                    is_valid = False
                attributes.append((name, variable))
                if cursor.take_mark(")"):
                    break
                if not cursor.take_mark(","):
                    raise cursor.unexpected(", or )", "Write EVENT Label(?attribute AS ?variable, …).")
        return BareOperand(EventRead(lexeme.text, tuple(attributes), cursor.span_since(first), label_span)) if is_valid else None

    def _variable(self, expected: str) -> tuple[Variable, Span]:
        lexeme = self.cursor.here
        if lexeme.group != "variable":
            raise self.cursor.unexpected(expected, "Attributes and variables begin with ?: EVENT Label(?attribute AS ?variable).")
        self.cursor.position += 1
        return lexeme.text[1:], self.cursor.span_of(lexeme)

    # --- the end of a chain ---

    def _filter(self) -> list[Condition]:
        cursor = self.cursor
        word = cursor.here
        cursor.position += 1
        first = cursor.position
        while cursor.here.group in ("word", "iri", "pname") and not (cursor.is_word("FILTER") or cursor.is_word("BIND")):
            cursor.position += 1
        if not (cursor.is_mark("(") or cursor.is_mark("{")):
            hint = "Write FILTER( … )."
            raise UnreadablePart(Diagnostic(TemporalCode.UNEXPECTED, "FILTER without brackets", cursor.span_of(word), hint))
        closed = cursor.closing(cursor.position)
        words = cursor.temporal_words(first, closed)
        cursor.position = closed + 1
        if self._report_nested_words(words):
            return []
        parsed = parse_interval_expression(cursor.span_between(first, closed + 1), cursor.scan, as_constraint=True)
        if parsed is None:
            return []
        self._record_places(parsed.conjuncts)
        return list(parsed.conjuncts)

    def _record_places(self, conditions: Sequence[Condition]) -> None:
        for condition, place in conditions:
            self.places.conditions.setdefault(condition, place)

    def _bind(self, parsed: ParsedOperand | None, bindings: list[tuple[Variable, Expression]]) -> None:
        cursor = self.cursor
        word = cursor.here
        cursor.position += 1
        if not cursor.is_mark("("):
            raise cursor.unexpected("(", "Write BIND(expression AS ?variable).")
        closed = cursor.closing(cursor.position)
        found = self.named_expression(cursor.position, closed, cursor.span_of(word))
        cursor.position = closed + 1
        if found is None:
            return
        name, place, expression = found
        if parsed is None:
            return
        if name in (*visible_variables(parsed.closed()), *(known for known, _ in bindings)):
            hint = "Give BIND a new variable, or compare in a FILTER."
            cursor.report(TemporalCode.VISIBLE_ALREADY, f"?{name} has a value already", place, hint)
            return
        bindings.append((name, expression.whole))

    def named_expression(self, opened: int, closed: int, place: Span) -> tuple[Variable, Span, ParsedExpression] | None:
        """The variable of `( EXPRESSION AS ?v )`, its place, and the expression.

        `opened` and `closed` are the positions of the brackets; `place` is for an empty expression.
        None after recorded problems.
        """
        cursor = self.cursor
        as_ = closed - 2
        if as_ <= opened or cursor.lexemes[as_].text.upper() != "AS" or cursor.lexemes[closed - 1].group != "variable":
            inner = cursor.span_between(opened, closed + 1)
            cursor.report(TemporalCode.UNEXPECTED, "a value without a name", inner, "Write (expression AS ?variable).")
            return None
        if as_ == opened + 1:
            cursor.report("Q101", "an expression is missing", place, "Write (expression AS ?variable).")
            return None
        name = cursor.lexemes[closed - 1]
        parsed = parse_interval_expression(cursor.span_between(opened + 1, as_), cursor.scan)
        return None if parsed is None else (name.text[1:], cursor.span_of(name), parsed)

    def _within(self) -> Micros | None:
        cursor = self.cursor
        word = cursor.here
        cursor.position += 1
        if cursor.here.group == "string":
            text, place = self._literal()
        else:
            stop = cursor.find(*_END_OF_DURATION, marks=("{", "}", ";", "("))
            text, place = cursor.text_until(stop) if stop > cursor.position else ("", cursor.span_of(word))
        if not text:
            cursor.report(TemporalCode.NO_DURATION, "WITHIN without a length of time", cursor.span_of(word), _DURATION)
            return None
        try:
            length = parse_duration(text)
        except InvalidDuration as error:
            problem = "WITHIN needs a unit" if re.fullmatch(r"[0-9.]+", text) else str(error)
            cursor.report(TemporalCode.NO_DURATION, problem, place, error.hint or _DURATION)
            return None
        self.places.within.append((place, length))
        return length

    def _literal(self) -> tuple[str, Span]:
        """The text and place of `"PT5M"^^xsd:duration`; the text "0" after a recorded problem."""
        cursor = self.cursor
        first = cursor.position
        text = cursor.here.text.strip("\"'")
        cursor.position += 1
        datatype = ""
        if cursor.take_mark("^^") and cursor.here.group in ("iri", "pname"):
            datatype = resolve_name(cursor.scan, cursor.here)
            cursor.position += 1
        place = cursor.span_since(first)
        if datatype.removeprefix("unknown:") == datatype and datatype not in (XSD + "duration", XSD + "dayTimeDuration"):
            cursor.report(
                TemporalCode.NO_DURATION, "a literal that is no duration", place, 'Write WITHIN "PT5M"^^xsd:duration, or WITHIN 5 min.'
            )
            return "0", place
        return text, place

    def _error(self, code: str, message: str, hint: str, place: Span | None = None) -> UnreadablePart:
        return UnreadablePart(Diagnostic(code, message, place or self.cursor.span_of(self.cursor.here), hint))
