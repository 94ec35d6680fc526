"""Parser of the parts of Datalog statements besides atoms: declarations, FILTER and BIND."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, assert_never

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var
from dotr.model.datalog import Bind, FilterItem
from dotr.model.places import Span
from dotr.model.traverse import subexpressions
from dotr.syntax.datalog.atoms import AtomReader
from dotr.syntax.datalog.tokens import IRI, MARK, NAME, VARIABLE, WORD, DatalogToken, DatalogTokenKind
from dotr.syntax.sparql import parse_expression


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
