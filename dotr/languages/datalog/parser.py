"""Datalog files to rules: the paper's notation and RDFox's, mixed as one likes (language.md, end).

Idea: recursive descent over the tokens of one statement (`tokens.py`). What is wrong inside a readable statement (an unknown prefix, a
literal as a subject, an expression) is noted and reading goes on; what makes it unreadable ends that statement alone. So every
problem of a file is reported at once.
Cost: about 20 µs a rule of three atoms; a term's text is understood once a file. FILTER and BIND cost what SPARQL's parser costs.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn, TypeAlias
from urllib.parse import urljoin

from dotr.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.languages.datalog.tokens import Kind, Token, statements
from dotr.languages.sparql import parse_expression
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, Slot, TimeOf, TriplePattern, Var
from dotr.model.datalog import Bind, BodyItem, DatalogRule, Not, Test
from dotr.model.places import Document, Span
from dotr.model.terms import FALSE, OWL, RDF, RDF_TYPE, RDFS, TRUE, XSD, Prefixes, iri, is_iri, is_literal, literal, unescaped

_VARIABLE, _ARROW, _NAME, _MARK, _IRI, _STRING, _NUMBER, _BLANK, _WORD, _TAG, _QUOTE, _OPERATOR = (kind.value for kind in Kind)

_TYPE: Final = Const(RDF_TYPE)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_ESCAPED: Final = re.compile(r"\\([_~.\-!$&'()*+,;=/?#@%])")
_CLOSING: Final = {"(": ")", "[": "]"}
_WELL_KNOWN: Final = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD}
_KEYWORDS: Final = ("FILTER", "BIND", "NOT", "PREFIX", "BASE", "AGGREGATE", "SKOLEM")
_UNSUPPORTED: Final = {
    "AGGREGATE": (
        "K207",
        "AGGREGATE is not evaluated yet",
        "Count and sum over time in a temporal rule (`?n = count(*) of …`), or over one instant in its query.",
    ),
    "SKOLEM": ("K207", "SKOLEM is refused: rules make no new names", "A temporal rule's define template makes them (`dotr_id1`)."),
}
_ATOMS: Final = "Atoms are :C(?x), :p(?x, ?y), :p[?x, ?y] and [?s, ?p, ?o]."

Atom: TypeAlias = TriplePattern | None
"""None: an atom that was readable but wrong (it has been reported)."""


class _Unreadable(Exception):
    """The rest of a statement cannot be read."""


def parse_datalog(document: Document, prefixes: Prefixes) -> tuple[DatalogRule, ...]:
    """The rules and facts of a file, in its order; a file without prefix declarations uses `prefixes`. Raises `Refused`.

    >>> rule = parse_datalog(Document("b.dlog", ":in(?a, ?b) :- :at(?a, ?c), :in[?c, ?b] ."), {"": "http://e/"})[0]
    >>> rule.name, len(rule.head), len(rule.body)
    ('b.dlog:1', 1, 2)
    """
    parser = _Parser(document, prefixes)
    rules: list[DatalogRule] = []
    line, counted = 1, 0
    for tokens in statements(document.text):
        start = tokens[0][2]
        line, counted = line + document.text.count("\n", counted, start), start
        rule = parser.statement(tokens, line)
        if rule is not None:
            rules.append(rule)
    if parser.problems:
        raise Refused(parser.problems)
    return tuple(rules)


class _Parser:
    def __init__(self, document: Document, prefixes: Prefixes) -> None:
        self.problems: list[Diagnostic] = []
        self._document = document
        self._prefixes: dict[str, str] = dict(prefixes)
        self._declares = False
        self._base = ""
        self._slots: dict[str, Slot] = {}
        self._tokens: list[Token] = []
        self._at = 0

    # --- statements ---

    def statement(self, tokens: list[Token], line: int) -> DatalogRule | None:
        """The rule of a statement; None for a declaration, or where it was refused."""
        known = len(self.problems)
        kind, text, start = tokens[0]
        self._tokens, self._at = tokens, 0
        last = tokens[-1]
        end = last[2] + len(last[1])
        # A sentinel, so that looking at a token needs no check of the end.
        tokens.append((_OPERATOR, "", end))
        try:
            if text == ".":
                return None
            if (kind == _WORD and text.upper() in ("PREFIX", "BASE")) or kind == _TAG:
                self._declaration()
                return None
            head, body = self._rule()
        except _Unreadable:
            return None
        if len(self.problems) > known:
            return None
        return DatalogRule(f"{self._document.name}:{line}", head, body, Span(self._document, start, end))

    def _declaration(self) -> None:
        """`@prefix p: <…> .`, `PREFIX p: <…>`, `@base <…> .` or `BASE <…>`."""
        word = self._tokens[0][1].lstrip("@").upper()
        self._at = 1
        if word == "BASE":
            self._base = self._resolved(self._expect(_IRI, "an IRI in angle brackets"))
        elif word == "PREFIX":
            name = self._expect(_NAME, "a prefix that ends in a colon")
            if not name[1].endswith(":") or name[1].count(":") > 1:
                self._fail("K201", f"expected a prefix that ends in a colon, found {name[1]}", name)
            if not self._declares:
                self._declares, self._prefixes = True, {}
            self._prefixes[name[1][:-1]] = self._resolved(self._expect(_IRI, "an IRI in angle brackets"))
        else:
            self._fail("K201", f"unexpected {self._tokens[0][1]}", self._tokens[0], "Declarations are @prefix and @base.")
        self._slots.clear()
        if self._tokens[self._at][1] not in ("", "."):
            self._unexpected("the end of the declaration")

    def _rule(self) -> tuple[tuple[TriplePattern, ...], tuple[BodyItem, ...]]:
        tokens = self._tokens
        head: list[TriplePattern] = []
        if tokens[0][0] == _WORD and tokens[0][1].lower() == "false":
            self._at = 1
        else:
            while True:
                atom = self._atom(head=True)
                if atom is not None:
                    head.append(atom)
                if tokens[self._at][1] != ",":
                    break
                self._at += 1
        body: list[BodyItem] = []
        if tokens[self._at][0] == _ARROW:
            self._at += 1
            if tokens[self._at][1] != ".":
                while True:
                    self._item(body)
                    if tokens[self._at][1] != ",":
                        break
                    self._at += 1
        # The paper prints a rule without its dot: the last of a file may do so.
        if tokens[self._at][1] not in (".", ""):
            self._unexpected("`,` or `.`" if body else "`:-` or `.`")
        return tuple(head), tuple(body)

    # --- body ---

    def _item(self, body: list[BodyItem]) -> None:
        kind, text, _ = token = self._tokens[self._at]
        if kind != _WORD or (text == "a" and self._tokens[self._at + 1][1] in ("(", "[")):
            atom = self._atom(head=False)
            if atom is not None:
                body.append(atom)
            return
        match text.upper():
            case "FILTER":
                self._filter(body)
            case "BIND":
                self._bind(body)
            case "NOT":
                self._not(body)
            case "AGGREGATE" | "SKOLEM":
                self._fail(*self._unsupported(token))
            case upper:
                self._fail("K201", f"unknown word {text}", token, did_you_mean(upper, _KEYWORDS) or _ATOMS)

    def _unsupported(self, token: Token) -> tuple[str, str, Token, str]:
        code, message, hint = _UNSUPPORTED[token[1].upper()]
        return code, message, token, hint

    def _filter(self, body: list[BodyItem]) -> None:
        """`FILTER(…)`, or `FILTER regex(…)`: a function needs no parentheses around it."""
        self._at += 1
        kind, text, start = self._tokens[self._at]
        if kind == _WORD and text.upper() in ("NOT", "EXISTS"):
            self._fail(
                "K209",
                "EXISTS is no condition of a rule",
                self._tokens[self._at],
                "Write atoms, or NOT(atom, …), in the body itself.",
            )
        call = kind in (_WORD, _NAME, _IRI)
        if call:
            self._at += 1
        opened, closed = self._brackets()
        condition = self._expression(start if call else opened[2] + 1, closed[2] + 1 if call else closed[2])
        if condition is not None:
            body.append(Test(condition))

    def _bind(self, body: list[BodyItem]) -> None:
        """`BIND(… AS ?v)`."""
        self._at += 1
        opened, _ = self._brackets()
        word, variable = self._tokens[self._at - 3], self._tokens[self._at - 2]
        if word[1].upper() != "AS" or variable[0] != _VARIABLE:
            self._fail("K201", "expected `AS ?variable` at the end of BIND", variable, "Write BIND(expression AS ?v).")
        expression = self._expression(opened[2] + 1, word[2])
        if expression is not None:
            body.append(Bind(expression, variable[1][1:]))

    def _not(self, body: list[BodyItem]) -> None:
        """`NOT atom`, `NOT(atom, …)`, `NOT EXISTS ?x, … IN atom` and `NOT EXISTS ?x, … IN (atom, …)`."""
        self._at += 1
        tokens = self._tokens
        quantified: list[Token] = []
        if tokens[self._at][1].upper() == "EXISTS":
            while True:
                self._at += 1
                quantified.append(self._expect(_VARIABLE, "a variable"))
                if tokens[self._at][1] != ",":
                    break
            if tokens[self._at][1].upper() != "IN":
                self._unexpected("IN")
            self._at += 1
        atoms: list[TriplePattern] = []
        several = tokens[self._at][1] == "("
        while True:
            if several:
                self._at += 1
            if tokens[self._at][0] == _WORD and tokens[self._at][1] != "a":
                hint = "Move it to the body of a rule of its own, and write NOT of that rule's head."
                self._fail("K207", f"{tokens[self._at][1].upper()} inside NOT: only atoms stand there", tokens[self._at], hint)
            atom = self._atom(head=False)
            if atom is not None:
                atoms.append(atom)
            if not several or tokens[self._at][1] != ",":
                break
        if several:
            if tokens[self._at][1] != ")":
                self._unexpected("`,` or `)`")
            self._at += 1
        for token in quantified:
            self._check_local(token)
        body.append(Not(tuple(atoms)))

    def _check_local(self, quantified: Token) -> None:
        """A variable of `NOT EXISTS` is its own: it may not occur outside."""
        depth = 0
        for place in range(self._at, -1, -1):
            depth += {")": 1, "(": -1}.get(self._tokens[place][1], 0)
            if self._tokens[place] is quantified:
                break
        begin, end = place, self._at
        for place, token in enumerate(self._tokens):
            if not begin <= place < end and token[1] == quantified[1]:
                hint = "NOT EXISTS has variables of its own: give this one another name, or leave out `EXISTS … IN`."
                self._note("K211", f"{quantified[1]} occurs outside of NOT EXISTS too", quantified, hint)
                return

    def _brackets(self) -> tuple[Token, Token]:
        """The parenthesis here and its partner; goes on behind it."""
        opened = self._expect(_MARK, "`(`", "(")
        depth = 1
        while depth:
            kind, text, _ = token = self._tokens[self._at]
            if text == "" or (kind == _MARK and text == "." and self._at == len(self._tokens) - 2):
                self._fail("K208", "( is never closed", opened, "Add the ) that belongs to it.")
            if kind == _QUOTE:
                self._unclosed_string(token)
            depth += {"(": 1, ")": -1}.get(text, 0)
            self._at += 1
        return opened, token

    def _expression(self, start: int, end: int) -> Expression | None:
        span = Span(self._document, start, end)
        try:
            expression = parse_expression(span, self._prefixes)
        except Refused as refused:
            self.problems += refused.diagnostics
            return None
        for wrong, hint in _not_of_rules(expression):
            self.problems.append(Diagnostic("K209", f"{wrong} in a Datalog rule", span, hint))
        return expression

    # --- atoms ---

    def _atom(self, *, head: bool) -> Atom:
        tokens, at = self._tokens, self._at
        kind, text, _ = token = tokens[at]
        if text == "[":
            slots = self._arguments("]")
            if len(slots) != 3:
                self._note("K203", f"[…] with {len(slots)} terms", token, "A triple is [?subject, ?predicate, ?object].", self._behind())
                return None
            subject, predicate, object_ = slots
            place = tokens[at + 1]
            predicate_place = self._nth(at + 1, 1)
        elif kind in (_NAME, _IRI) or (kind == _WORD and text == "a"):
            self._at += 1
            opened = tokens[at + 1][1]
            if opened not in _CLOSING:
                self._unexpected("`(` or `[`", _ATOMS if tokens[at + 1][1] != ":-" else f"Write {text}(?x).")
            slots = self._arguments(_CLOSING[opened])
            name = self._slot(token)
            place, predicate_place = tokens[at + 2], token
            if len(slots) == 1:
                subject, predicate, object_ = slots[0], _TYPE, name
            elif len(slots) == 2:
                subject, predicate, object_ = slots[0], name, slots[1]
            else:
                self._note("K203", f"{text} with {len(slots)} arguments", token, _ATOMS, self._behind())
                return None
        else:
            self._no_atom(token, head=head)
        if type(predicate) is Const and not is_iri(predicate.term):
            self._note("K204", f"{predicate.term} cannot be a predicate", predicate_place, "A predicate is an IRI or a variable.")
            return None
        if type(subject) is Const and is_literal(subject.term):
            self._note("K204", "a literal cannot be a subject", place, "Did you mean the subject and the object the other way round?")
            return None
        return TriplePattern(subject, predicate, object_)

    def _arguments(self, closing: str) -> list[Slot]:
        """The terms between the bracket here and `closing`; goes on behind it."""
        tokens, slots = self._tokens, list[Slot]()
        known = self._slots
        at = self._at + 1
        while True:
            token = tokens[at]
            slot = known.get(token[1])
            if slot is None:
                self._at = at
                slot = self._slot(token)
                at = self._at
            slots.append(slot)
            text = tokens[at + 1][1]
            at += 2
            if text == ",":
                continue
            if text == closing:
                self._at = at
                return slots
            self._at = at - 1
            hint = "Terms are separated by commas." if tokens[self._at][0] not in (_MARK, _OPERATOR, _ARROW) else ""
            self._unexpected(f"`,` or `{closing}`", hint)

    def _slot(self, token: Token) -> Slot:
        """The term or variable at a token (and behind it: a literal's datatype or language, where `_at` then stands at its last token)."""
        kind, text, _ = token
        slot: Slot
        match kind:
            case Kind.VARIABLE:
                slot = Var(text[1:])
            case Kind.NAME | Kind.IRI:
                slot = Const(iri(self._resolved(token)))
            case Kind.NUMBER:
                name = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
                slot = Const(literal(text, XSD + name))
            case Kind.WORD if text == "a":
                slot = _TYPE
            case Kind.WORD if text in ("true", "false"):
                slot = Const(TRUE if text == "true" else FALSE)
            case Kind.STRING:
                return self._literal(token)
            case Kind.BLANK:
                hint = "In a rule's body write a variable; a fact of the background needs a graph file (Turtle) for nodes without a name."
                self._note("K205", "a blank node cannot be written in a rule", token, hint)
                return _TYPE
            case Kind.QUOTE:
                self._unclosed_string(token)
            case Kind.WORD:
                hint = "Names need a prefix (:name) or angle brackets, variables a question mark, text quotes."
                self._fail("K201", f"expected a term, found {text}", token, hint)
            case _:
                self._unexpected("a term")
        self._slots[text] = slot
        return slot

    def _literal(self, token: Token) -> Slot:
        text = token[1]
        width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
        lexical = unescaped(text[width:-width])
        at = self._at
        following = self._tokens[at + 1]
        if following[0] == _TAG:
            self._at = at + 1
            return Const(literal(lexical, language=following[1][1:]))
        if following[1] == "^^":
            self._at = at + 2
            datatype = self._tokens[at + 2]
            if datatype[0] not in (_NAME, _IRI):
                self._unexpected("a datatype")
            return Const(literal(lexical, self._resolved(datatype)))
        return Const(literal(lexical))

    def _resolved(self, token: Token) -> str:
        """The IRI of an IRI reference or a prefixed name, without angle brackets."""
        kind, text, _ = token
        if kind == _IRI:
            name = unescaped(text[1:-1])
            if _SCHEME.match(name):
                return name
            if self._base:
                return urljoin(self._base, name)
            self._note("K206", f"{text} is a relative IRI", token, "Write it in full, or declare a base (`@base <…> .`).")
            return name
        prefix, local = text.split(":", 1)
        namespace = self._prefixes.get(prefix)
        if namespace is None:
            self._note("K202", f"unknown prefix {prefix}:", (_NAME, prefix + ":", token[2]), self._prefix_hint(prefix))
            return text
        return namespace + (_ESCAPED.sub(r"\1", local) if "\\" in local else local)

    def _prefix_hint(self, prefix: str) -> str:
        if prefix in _WELL_KNOWN:
            return f"Add `PREFIX {prefix}: <{_WELL_KNOWN[prefix]}>` at the top of the file."
        known = ", ".join(sorted(f"{p}:" for p in self._prefixes)) or "none"
        return did_you_mean(prefix, sorted(self._prefixes)) or f"Declare it: `PREFIX {prefix}: <…>`. Known here: {known}."

    # --- problems ---

    def _expect(self, kind: int, what: str, text: str = "") -> Token:
        token = self._tokens[self._at]
        if token[0] != kind or (text and token[1] != text):
            self._unexpected(what)
        self._at += 1
        return token

    def _no_atom(self, token: Token, *, head: bool) -> NoReturn:
        kind, text, _ = token
        if kind == _VARIABLE:
            followed = self._tokens[self._at + 1]
            if followed[0] == _OPERATOR and followed[1]:
                self._fail("K201", f"{text} {followed[1]} … is no atom", token, f"Write FILTER({text} {followed[1]} …).")
            self._fail("K201", f"{text} cannot be a class or a predicate here", token, f"Write [?x, {text}, ?y], or [?x, a, {text}].")
        if kind == _WORD and head and text.upper() in ("FILTER", "BIND", "NOT"):
            self._fail("K201", f"{text.upper()} in a head", token, "Conditions stand behind `:-`.")
        if kind == _WORD and text.upper() in _UNSUPPORTED:
            self._fail(*self._unsupported(token))
        if kind == _WORD:
            self._fail("K201", f"unknown word {text}", token, did_you_mean(text.upper(), _KEYWORDS) or f"Names need a prefix: :{text}.")
        self._unexpected("an atom", _ATOMS)

    def _unexpected(self, wanted: str, hint: str = "") -> NoReturn:
        token = self._tokens[self._at]
        kind, text, _ = token
        if kind == _QUOTE:
            self._unclosed_string(token)
        if kind == _ARROW and not hint:
            hint = "A rule has one `:-`; the rule before ends with a dot."
        elif wanted.endswith("`.`") and kind in (_NAME, _IRI, _WORD) and not hint:
            hint = "Atoms are separated by commas, and a rule ends with a dot."
        self._fail("K201", f"expected {wanted}, found {text or 'the end of the file'}", token, hint)

    def _unclosed_string(self, token: Token) -> NoReturn:
        hint = f"Close it with {token[1]} on the same line; several lines need {token[1] * 3}."
        self._fail("K208", "a string that is never closed", token, hint)

    def _fail(self, code: str, message: str, token: Token, hint: str = "") -> NoReturn:
        self._note(code, message, token, hint)
        raise _Unreadable

    def _note(self, code: str, message: str, token: Token, hint: str = "", end: int = 0) -> None:
        span = Span(self._document, token[2], end or token[2] + len(token[1]))
        self.problems.append(Diagnostic(code, message, span, hint))

    def _behind(self) -> int:
        """The offset behind the last token that was read."""
        _, text, start = self._tokens[self._at - 1]
        return start + len(text)

    def _nth(self, at: int, commas: int) -> Token:
        """The token behind so many commas."""
        while commas:
            commas -= self._tokens[at][1] == ","
            at += 1
        return self._tokens[at]


def _not_of_rules(expression: Expression) -> list[tuple[str, str]]:
    """What a rule's expression may not hold, with the way out."""
    match expression:
        case Attribute(label, name):
            return [(f"{label}.?{name}", "Datalog knows one instant; relate instants in a temporal rule.")]
        case TimeOf(label):
            return [(f"time({label})", "Datalog knows one instant; relate instants in a temporal rule.")]
        case Exists():
            return [("EXISTS", "Write atoms, or NOT(atom, …), in the body itself.")]
        case Call(_, arguments):
            return [wrong for argument in arguments for wrong in _not_of_rules(argument)]
        case Var() | Const():
            return []
