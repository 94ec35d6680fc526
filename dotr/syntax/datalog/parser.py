"""Recursive descent parser of Datalog files, in the paper's notation, RDFox's, or a mixture.

Idea: each statement is parsed by itself, over its tokens (`tokens.py`). After a syntax error,
parsing continues with the next statement; after any other error (an unknown prefix, a literal as a
subject), within the statement. So all problems of a file are reported at once.
Cost: about 25 µs a rule of three atoms, 13 µs a fact; each distinct term is parsed once a file. The
expressions of FILTER and BIND cost as much as in the SPARQL parser.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple, NoReturn, TypeAlias, assert_never

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.model.algebra import AggregateCall, Attribute, Call, Const, Exists, Expression, Slot, TimeOf, TriplePattern, Var
from dotr.model.datalog import Bind, BodyItem, DatalogRule, FilterItem, GroupAggregate, Not
from dotr.model.places import Document, Span
from dotr.model.terms import Prefixes, Variable, can_be_subject, is_iri, is_literal
from dotr.model.traverse import subexpressions
from dotr.syntax.datalog.terms import TYPE, StatementReader, UnreadableStatement
from dotr.syntax.datalog.tokens import ARROW, IRI, MARK, NAME, VARIABLE, WORD, DatalogToken, DatalogTokenKind, statements
from dotr.syntax.sparql import parse_expression

# Parser of the parts of Datalog statements besides atoms: declarations, FILTER and BIND.


# Parser of Datalog atoms: `:C(?x)`, `:p(?x, ?y)`, `:p[?x, ?y]` and `[?s, ?p, ?o]`.
#
# Idea: almost every token of a file is part of an atom, so it is first looked up by its text in the
# cache of parsed terms (`_slot_cache`), and parsed only at a miss.


_CLOSING: Final = {"(": ")", "[": "]"}
KEYWORDS: Final = ("FILTER", "BIND", "NOT", "PREFIX", "BASE", "AGGREGATE", "SKOLEM")
_UNSUPPORTED: Final = {
    "SKOLEM": ("K207", "SKOLEM is refused: rules make no new names", "A temporal rule's define template makes them (`dotr_id1`)."),
}
ATOMS: Final = "Atoms are :C(?x), :p(?x, ?y), :p[?x, ?y] and [?s, ?p, ?o]."

ReadAtom: TypeAlias = TriplePattern | None
"""An atom; None for an atom of valid syntax with an error, which has been reported."""


class AtomReader(StatementReader):
    """Parser of the atoms of a statement; `_atoms_hint`: their forms, for messages."""

    _atoms_hint: ClassVar[str] = ATOMS

    def _atom(self, *, head: bool) -> ReadAtom:
        tokens, index = self._tokens, self._index
        kind, text, _ = token = tokens[index]
        if text == "[":
            slots = self._arguments("]")
            if len(slots) != 3:
                self._report(
                    "K203", f"[…] with {len(slots)} terms", token, "A triple is [?subject, ?predicate, ?object].", self._end_offset()
                )
                return None
            subject, predicate, object_ = slots
            subject_token = tokens[index + 1]
            predicate_token = self._token_behind_commas(index + 1, 1)
        elif kind in (NAME, IRI) or (kind == WORD and text == "a"):
            self._index += 1
            opening = tokens[index + 1][1]
            if opening not in _CLOSING:
                self._unexpected("`(` or `[`", self._atoms_hint if tokens[index + 1][1] != ":-" else f"Write {text}(?x).")
            slots = self._arguments(_CLOSING[opening])
            name = self._slot(token)
            subject_token, predicate_token = tokens[index + 2], token
            if len(slots) == 1:
                subject, predicate, object_ = slots[0], TYPE, name
            elif len(slots) == 2:
                subject, predicate, object_ = slots[0], name, slots[1]
            else:
                self._report("K203", f"{text} with {len(slots)} arguments", token, self._atoms_hint, self._end_offset())
                return None
        else:
            self._fail_atom(token, head=head)
        if type(predicate) is Const and not is_iri(predicate.term):
            self._report("K204", f"{predicate.term} cannot be a predicate", predicate_token, "A predicate is an IRI or a variable.")
            return None
        if type(subject) is Const and not can_be_subject(subject.term):
            kind_text = "a literal" if is_literal(subject.term) else "a triple term"
            self._report(
                "K204", f"{kind_text} cannot be a subject", subject_token, "Did you mean the subject and the object the other way round?"
            )
            return None
        return TriplePattern(subject, predicate, object_)

    def _arguments(self, closing: str) -> list[Slot]:
        """The terms between the current bracket and `closing`, which is consumed."""
        tokens, slots = self._tokens, list[Slot]()
        slot_cache = self._slot_cache
        index = self._index + 1
        while True:
            token = tokens[index]
            slot = slot_cache.get(token[1])
            if slot is None:
                self._index = index
                slot = self._slot(token)
                index = self._index
            slots.append(slot)
            text = tokens[index + 1][1]
            index += 2
            if text == ",":
                continue
            if text == closing:
                self._index = index
                return slots
            self._index = index - 1
            hint = "Terms are separated by commas." if tokens[self._index][0] not in (MARK, DatalogTokenKind.OPERATOR, ARROW) else ""
            self._unexpected(f"`,` or `{closing}`", hint)

    def _fail_atom(self, token: DatalogToken, *, head: bool) -> NoReturn:
        """Raise the error of a token that begins no atom."""
        kind, text, _ = token
        if kind == VARIABLE:
            following = self._tokens[self._index + 1]
            if following[0] == DatalogTokenKind.OPERATOR and following[1]:
                self._fail(self._syntax_code, f"{text} {following[1]} … is no atom", token, f"Write FILTER({text} {following[1]} …).")
            self._fail(
                self._syntax_code, f"{text} cannot be a class or a predicate here", token, f"Write [?x, {text}, ?y], or [?x, a, {text}]."
            )
        if kind == WORD and head and text.upper() in ("FILTER", "BIND", "NOT", "AGGREGATE"):
            self._fail(self._syntax_code, f"{text.upper()} in a head", token, "Conditions follow `:-`.")
        if kind == WORD and text.upper() in _UNSUPPORTED:
            self._fail(*self._unsupported(token))
        if kind == WORD:
            self._fail(
                self._syntax_code, f"unknown word {text}", token, did_you_mean(text.upper(), KEYWORDS) or f"Names need a prefix: :{text}."
            )
        self._unexpected("an atom", self._atoms_hint)

    def _end_offset(self) -> int:
        """The offset behind the last token read."""
        _, text, start = self._tokens[self._index - 1]
        return start + len(text)

    def _token_behind_commas(self, index: int, commas: int) -> DatalogToken:
        """The token behind the next `commas` commas from the token at `index`."""
        while commas:
            commas -= self._tokens[index][1] == ","
            index += 1
        return self._tokens[index]

    def _unsupported(self, token: DatalogToken) -> tuple[str, str, DatalogToken, str]:
        """The arguments of `_fail` for a word of other systems that is refused."""
        code, message, hint = _UNSUPPORTED[token[1].upper()]
        return code, message, token, hint


class ForbiddenParts(NamedTuple):
    """Texts of the errors of a language for expressions that its rules cannot have.

    - `code`: the code of the errors; `rule`: the kind of rule, as `a Datalog rule`.
    - `label_hint`, `exists_hint`: the hints for `M.?v` and `time(M)`, and for EXISTS.
    """

    code: str
    rule: str
    label_hint: str
    exists_hint: str


class ConditionReader(AtomReader):
    """Parser of declarations, FILTER and BIND."""

    is_of_rule_set = False
    _forbidden: ClassVar[ForbiddenParts] = ForbiddenParts(
        "K209",
        "a Datalog rule",
        "Datalog rules read one instant; relate instants in a temporal rule.",
        "Write atoms, or NOT(atom, …), in the body itself.",
    )

    def _declaration(self) -> None:
        """`@prefix p: <…> .`, `PREFIX p: <…>`, `@base <…> .` or `BASE <…>`."""
        word = self._tokens[0][1].lstrip("@").upper()
        self._index = 1
        if word == "BASE":
            self._slot_cache.clear()
            self._base = self._resolved_iri(self._expect(IRI, "an IRI in angle brackets"))
        elif word == "PREFIX":
            name = self._expect(NAME, "a prefix that ends in a colon")
            if not name[1].endswith(":") or name[1].count(":") > 1:
                self._fail(self._syntax_code, f"expected a prefix that ends in a colon, found {name[1]}", name)
            self._declare(name[1][:-1], self._resolved_iri(self._expect(IRI, "an IRI in angle brackets")))
        else:
            self._fail(self._syntax_code, f"unexpected {self._tokens[0][1]}", self._tokens[0], "Declarations are @prefix and @base.")
        if self._tokens[self._index][1] not in ("", "."):
            self._unexpected("the end of the declaration")

    def _filter(self) -> FilterItem | None:
        """`FILTER(…)`, or `FILTER regex(…)`: a function call needs no parentheses around it.

        None after a reported error in the condition.
        """
        self._index += 1
        kind, text, start = self._tokens[self._index]
        if kind == WORD and text.upper() in ("NOT", "EXISTS"):
            self._fail(self._forbidden.code, "EXISTS is no condition of a rule", self._tokens[self._index], self._forbidden.exists_hint)
        is_call = kind in (WORD, NAME, IRI)
        if is_call:
            self._index += 1
        opened, closed = self._brackets()
        condition = self._expression(start if is_call else opened[2] + 1, closed[2] + 1 if is_call else closed[2])
        return FilterItem(condition) if condition is not None else None

    def _bind(self) -> Bind | None:
        """`BIND(… AS ?v)`; None after a reported error in the expression."""
        self._index += 1
        opened, _ = self._brackets()
        word, variable = self._tokens[self._index - 3], self._tokens[self._index - 2]
        if word[1].upper() != "AS" or variable[0] != VARIABLE:
            self._fail(self._syntax_code, "expected `AS ?variable` at the end of BIND", variable, "Write BIND(expression AS ?v).")
        expression = self._expression(opened[2] + 1, word[2])
        return Bind(expression, variable[1][1:]) if expression is not None else None

    def _brackets(self) -> tuple[DatalogToken, DatalogToken]:
        """The current parenthesis and the one that closes it, both consumed."""
        opened = self._expect(MARK, "`(`", "(")
        depth = 1
        while depth:
            kind, text, _ = token = self._tokens[self._index]
            if text == "" or (kind == MARK and text == "." and self._index == len(self._tokens) - 2):
                self._fail("K208", "( is never closed", opened, "Add the ) that belongs to it.")
            if kind == DatalogTokenKind.QUOTE:
                self._unclosed_string(token)
            depth += {"(": 1, ")": -1}.get(text, 0)
            self._index += 1
        return opened, token

    def _expression(self, start: int, end: int) -> Expression | None:
        """The SPARQL expression between two offsets; None after a reported syntax error."""
        span = Span(self._document, start, end)
        try:
            expression = parse_expression(span, self._prefixes, is_of_rule_set=self.is_of_rule_set)
        except Refused as refused:
            self.problems += refused.diagnostics
            return None
        for part, hint in self._forbidden_parts(expression):
            self.problems.append(Diagnostic(self._forbidden.code, f"{part} in {self._forbidden.rule}", span, hint))
        return expression

    def _forbidden_parts(self, expression: Expression) -> list[tuple[str, str]]:
        """The parts of an expression that a rule cannot have, each with a hint."""
        forbidden = []
        for part in subexpressions(expression):
            match part:
                case Attribute(label, name):
                    forbidden.append((f"{label}.?{name}", self._forbidden.label_hint))
                case TimeOf(label):
                    forbidden.append((f"time({label})", self._forbidden.label_hint))
                case Exists():
                    forbidden.append(("EXISTS", self._forbidden.exists_hint))
                case Var() | Const() | Call():
                    pass
                case _:
                    assert_never(part)
        return forbidden


_FUNCTIONS: Final = ("COUNT", "SUM", "AVG", "MIN", "MAX")


def parse_datalog(document: Document, prefixes: Prefixes, *, is_of_rule_set: bool = False) -> tuple[DatalogRule, ...]:
    """Parse the rules and facts of a file, in their order; a fact is a rule without a body.

    `prefixes` (prefix to namespace IRI) are used if the file declares none. `is_of_rule_set`: it is
    a built-in rule set, which has functions of its own. Raises `Refused` with all errors.

    >>> document = Document("b.dlog", ":in(?a, ?b) :- :at(?a, ?c), :in[?c, ?b] .")
    >>> (rule,) = parse_datalog(document, {"": "http://e/"})
    >>> rule.name, len(rule.head), len(rule.body)
    ('b.dlog:1', 1, 2)
    """
    parser = _Parser(document, prefixes)
    parser.is_of_rule_set = is_of_rule_set
    rules: list[DatalogRule] = []
    line, counted_to = 1, 0
    for tokens in statements(document.text):
        start = tokens[0][2]
        line, counted_to = line + document.text.count("\n", counted_to, start), start
        rule = parser.statement(tokens, line)
        if rule is not None:
            rules.append(rule)
    if parser.problems:
        raise Refused(parser.problems)
    return tuple(rules)


class _Parser(ConditionReader):
    """Parser of the statements of one file."""

    # --- statements ---

    def statement(self, tokens: list[DatalogToken], line: int) -> DatalogRule | None:
        """The rule of a statement; None for a declaration or after an error.

        `tokens`: those of the statement; a sentinel is appended. `line`: of the first, from 1.
        """
        problems_before = len(self.problems)
        kind, text, start = tokens[0]
        self._tokens, self._index, self._depth = tokens, 0, 0
        last = tokens[-1]
        end = last[2] + len(last[1])
        # With this sentinel, access to the next token needs no check of the end.
        tokens.append((DatalogTokenKind.OPERATOR, "", end))
        try:
            if text == ".":
                return None
            if (kind == WORD and text.upper() in ("PREFIX", "BASE")) or kind == DatalogTokenKind.TAG:
                self._declaration()
                return None
            head, body = self._rule()
        except UnreadableStatement:
            return None
        if len(self.problems) > problems_before:
            return None
        return DatalogRule(f"{self._document.name}:{line}", head, body, Span(self._document, start, end))

    def _rule(self) -> tuple[tuple[TriplePattern, ...], tuple[BodyItem, ...]]:
        tokens = self._tokens
        head: list[TriplePattern] = []
        if tokens[0][0] == WORD and tokens[0][1].lower() == "false":
            self._index = 1
        else:
            while True:
                atom = self._atom(head=True)
                if atom is not None:
                    head.append(atom)
                if tokens[self._index][1] != ",":
                    break
                self._index += 1
        body: list[BodyItem] = []
        if tokens[self._index][0] == ARROW:
            self._index += 1
            if tokens[self._index][1] != ".":
                while True:
                    self._item(body)
                    if tokens[self._index][1] != ",":
                        break
                    self._index += 1
        # In the paper rules have no dot, so the dot of the last statement is optional.
        if tokens[self._index][1] not in (".", ""):
            self._unexpected("`,` or `.`" if body else "`:-` or `.`")
        return tuple(head), tuple(body)

    # --- body ---

    def _item(self, body: list[BodyItem]) -> None:
        """Parse an item and append it to `body`; after a reported error nothing is appended."""
        kind, text, _ = token = self._tokens[self._index]
        if kind != WORD or (text == "a" and self._tokens[self._index + 1][1] in ("(", "[")):
            atom = self._atom(head=False)
            if atom is not None:
                body.append(atom)
            return
        match text.upper():
            case "FILTER":
                condition = self._filter()
                body += [condition] if condition is not None else []
            case "BIND":
                binding = self._bind()
                body += [binding] if binding is not None else []
            case "NOT":
                self._not(body)
            case "AGGREGATE":
                self._aggregate(body)
            case "SKOLEM":
                self._fail(*self._unsupported(token))
            case upper:
                self._fail("K201", f"unknown word {text}", token, did_you_mean(upper, KEYWORDS) or ATOMS)

    def _not(self, body: list[BodyItem]) -> None:
        """`NOT atom`, `NOT(atom, …)`, or with `EXISTS ?x, … IN` behind NOT."""
        self._index += 1
        tokens = self._tokens
        quantified: list[DatalogToken] = []
        if tokens[self._index][1].upper() == "EXISTS":
            while True:
                self._index += 1
                quantified.append(self._expect(VARIABLE, "a variable"))
                if tokens[self._index][1] != ",":
                    break
            if tokens[self._index][1].upper() != "IN":
                self._unexpected("IN")
            self._index += 1
        atoms: list[TriplePattern] = []
        is_list = tokens[self._index][1] == "("
        while True:
            if is_list:
                self._index += 1
            if tokens[self._index][0] == WORD and tokens[self._index][1] != "a":
                hint = "Move it to the body of a rule of its own, and write NOT of that rule's head."
                self._fail("K207", f"{tokens[self._index][1].upper()} inside NOT: only atoms are allowed", tokens[self._index], hint)
            atom = self._atom(head=False)
            if atom is not None:
                atoms.append(atom)
            if not is_list or tokens[self._index][1] != ",":
                break
        if is_list:
            if tokens[self._index][1] != ")":
                self._unexpected("`,` or `)`")
            self._index += 1
        for token in quantified:
            self._check_quantified(token)
        body.append(Not(tuple(atoms)))

    def _aggregate(self, body: list[BodyItem]) -> None:
        """`AGGREGATE(item, … ON ?key … BIND COUNT(?v) AS ?n …)`; ON is optional."""
        self._index += 1
        tokens = self._tokens
        self._expect(MARK, "`(`", "(")
        inner: list[TriplePattern | FilterItem | Bind] = []
        while True:
            inner += self._aggregated_item()
            if tokens[self._index][1] != ",":
                break
            self._index += 1
        keys: list[Variable] = []
        if tokens[self._index][1].upper() == "ON":
            self._index += 1
            while tokens[self._index][0] == VARIABLE or (keys and tokens[self._index][1] == ","):
                if tokens[self._index][1] != ",":
                    keys.append(tokens[self._index][1][1:])
                self._index += 1
        results: list[tuple[Variable, AggregateCall]] = []
        while tokens[self._index][1].upper() == "BIND":
            results += self._aggregate_bind()
        if not results:
            self._unexpected("ON or BIND" if not keys else "BIND", "Write AGGREGATE(:p[?x, ?y] ON ?x BIND COUNT(?y) AS ?n).")
        self._expect(MARK, "`)`", ")")
        body.append(GroupAggregate(tuple(inner), tuple(dict.fromkeys(keys)), tuple(results)))

    def _aggregated_item(self) -> list[TriplePattern | FilterItem | Bind]:
        token = self._tokens[self._index]
        if token[1].upper() in ("NOT", "AGGREGATE"):
            hint = "Move it to the body of a rule of its own, and aggregate over that rule's head."
            self._fail("K207", f"{token[1].upper()} inside AGGREGATE: only atoms, FILTER and BIND are allowed", token, hint)
        items: list[BodyItem] = []
        self._item(items)
        return [item for item in items if not isinstance(item, Not | GroupAggregate)]

    def _aggregate_bind(self) -> list[tuple[Variable, AggregateCall]]:
        """`BIND COUNT(DISTINCT ?v) AS ?n`; empty after an error in the expression."""
        tokens = self._tokens
        self._index += 1
        kind, text, _ = token = tokens[self._index]
        function = text.upper()
        if kind != WORD or function not in _FUNCTIONS:
            hint = did_you_mean(function, _FUNCTIONS) if kind == WORD else ""
            self._fail("K201", f"expected an aggregate, found {text}", token, hint or f"They are {', '.join(_FUNCTIONS)}.")
        self._index += 1
        begin = self._index + 1
        opened, closed = self._brackets()
        end = self._index
        distinct = tokens[begin][1].upper() == "DISTINCT"
        start = tokens[begin][2] + len(tokens[begin][1]) if distinct else opened[2] + 1
        argument: Expression | None = None
        if tokens[begin + distinct][1] == "*" and begin + distinct + 2 == end:
            if function != "COUNT":
                self._fail("K201", f"{function} of * has no meaning", tokens[begin + distinct], f"Write {function}(?v), or COUNT(*).")
        else:
            argument = self._expression(start, closed[2])
        if tokens[self._index][1].upper() != "AS":
            self._unexpected("`AS ?variable`", "Write BIND COUNT(?y) AS ?n.")
        self._index += 1
        variable = self._expect(VARIABLE, "a variable")[1][1:]
        counts_all = tokens[begin + distinct][1] == "*" and begin + distinct + 2 == end
        return [(variable, AggregateCall(function, distinct, argument))] if counts_all or argument is not None else []

    def _check_quantified(self, quantified: DatalogToken) -> None:
        """Report a variable of the parsed `NOT EXISTS ?v, … IN` that also occurs outside of it."""
        depth = 0
        for index in range(self._index, -1, -1):
            depth += {")": 1, "(": -1}.get(self._tokens[index][1], 0)
            if self._tokens[index] is quantified:
                break
        begin, end = index, self._index
        for index, token in enumerate(self._tokens):
            if not begin <= index < end and token[1] == quantified[1]:
                hint = "NOT EXISTS has variables of its own: give this one another name, or leave out `EXISTS … IN`."
                self._report("K211", f"{quantified[1]} occurs outside of NOT EXISTS too", quantified, hint)
                return
