"""Text of graph patterns in SPARQL and of Datalog atoms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from dotr.model.algebra import (
    Alternative,
    Bgp,
    BgpItem,
    Call,
    Const,
    Expression,
    Extend,
    Filter,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    MatchPattern,
    Minus,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Slot,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
    is_hidden,
    slots_of,
)
from dotr.model.algebra import Sequence as PathSequence
from dotr.model.datalog import Bind, BodyItem, FilterItem, GroupAggregate, Not
from dotr.model.terms import RDF_TYPE, Term, Variable, is_literal, literal_parts
from dotr.model.traverse import free_variables, subexpressions
from dotr.syntax.rendering import TermWriter, brief_text

_MAX_ROWS: Final = 3


def slot_text(slot: Slot, writer: TermWriter, bound: Mapping[Variable, Term] | None = None) -> str:
    """A slot of a pattern: its term, the term of its variable if one is bound, or the variable.

    >>> from dotr.model.algebra import Var
    >>> writer = TermWriter({"": "http://e/"})
    >>> slot_text(Var("r"), writer), slot_text(Var("r"), writer, {"r": "<http://e/a>"}), slot_text(Var("_:.0"), writer)
    ('?r', ':a', '[]')
    """
    term = slot.term if isinstance(slot, Const) else (bound or writer.terms).get(slot.name)
    if term is not None:
        return writer.text(term)
    assert not isinstance(slot, Const)
    return "[]" if is_anonymous(slot) else slot.name if is_hidden(slot.name) else f"?{slot.name}"


def is_anonymous(slot: Slot) -> bool:
    """True for a variable that the parser introduced for `[]` or inside a path."""
    return isinstance(slot, Var) and slot.name.startswith(("_:.", "."))


def name_bound_blanks(slots: Sequence[Slot], bound: Mapping[Variable, Term], writer: TermWriter) -> None:
    """Name blank nodes after the variables of some slots that are bound to them."""
    for slot in slots:
        if not isinstance(slot, Const) and slot.name in bound:
            writer.name_blank(bound[slot.name], "b" if is_anonymous(slot) else slot.name.removeprefix("_:"))


def items_text(items: Sequence[BgpItem], writer: TermWriter) -> str:
    """Patterns in Turtle's notation: consecutive patterns with one subject share it.

    >>> from dotr.model.algebra import Var
    >>> patterns = [TriplePattern(Var(s), Const(f"<http://e/{p}>"), Var(o)) for s, p, o in ("rpv", "rqw", "wps")]
    >>> items_text(patterns, TermWriter({"": "http://e/"}))
    '?r :p ?v ; :q ?w . ?w :p ?s'
    """
    text = ""
    subject: Slot | None = None
    for item in _with_paths(items):
        if text and not isinstance(item, TermPattern) and item.subject == subject:
            text += f" ; {_verb(item, writer)} {slot_text(item.object, writer)}"
        else:
            text += (" . " if text else "") + item_text(item, writer)
        subject = None if isinstance(item, TermPattern) else item.subject
    return text


def _with_paths(items: Sequence[BgpItem]) -> list[BgpItem]:
    """The patterns, where two that alone share an anonymous node are one path again."""
    uses = Counter(slot for item in items for slot in slots_of(item) if is_anonymous(slot))
    joined: list[BgpItem] = []
    for item in items:
        before = joined[-1] if joined else None
        first, second = _as_path(before), _as_path(item)
        if first is None or second is None or first.object != second.subject or uses[first.object] != 2 or first.subject == first.object:
            joined.append(item)
        else:
            joined[-1] = PathPattern(first.subject, PathSequence(first.path, second.path), second.object)
    return joined


def _as_path(item: BgpItem | None) -> PathPattern | None:
    match item:
        case TriplePattern(subject, Const(predicate), value):
            return PathPattern(subject, Link(predicate), value)
        case PathPattern():
            return item
        case _:
            return None


def item_text(item: BgpItem, writer: TermWriter) -> str:
    """One pattern of a basic graph pattern."""
    match item:
        case TriplePattern() | PathPattern():
            return f"{slot_text(item.subject, writer)} {_verb(item, writer)} {slot_text(item.object, writer)}"
        case TermPattern(term, subject, predicate, value):
            parts = " ".join(slot_text(slot, writer) for slot in (subject, predicate, value))
            return f"{slot_text(term, writer)} = <<( {parts} )>>"
        case _:
            assert_never(item)


def _verb(item: TriplePattern | PathPattern, writer: TermWriter) -> str:
    if isinstance(item, PathPattern):
        return path_text(item.path, writer)
    return writer.predicate(item.predicate.term) if isinstance(item.predicate, Const) else slot_text(item.predicate, writer)


def path_text(path: Path, writer: TermWriter) -> str:
    """A property path.

    >>> one, two = (Link(f"<http://e/{name}>") for name in "pq")
    >>> path_text(PathSequence(Repeat(Alternative(one, Inverse(two)), 1, True), two), TermWriter({"": "http://e/"}))
    '(:p|^:q)+/:q'
    """
    match path:
        case Link(predicate):
            return writer.predicate(predicate)
        case Inverse(inner):
            return f"^{_inner_path(inner, writer)}"
        case PathSequence(left, right):
            sides = [(side, path_text(side, writer)) for side in (left, right)]
            return "/".join(f"({text})" if isinstance(side, Alternative) else text for side, text in sides)
        case Alternative(left, right):
            return f"{path_text(left, writer)}|{path_text(right, writer)}"
        case Repeat(inner, least, many):
            return f"{_inner_path(inner, writer)}{('+' if least else '*') if many else '?'}"
        case Negated(forward, backward):
            names = [writer.predicate(each) for each in forward or ()] + [f"^{writer.predicate(each)}" for each in backward or ()]
            return f"!({'|'.join(names)})"
        case _:
            assert_never(path)


def _inner_path(path: Path, writer: TermWriter) -> str:
    text = path_text(path, writer)
    return text if isinstance(path, Link | Negated) else f"({text})"


# --- text of groups ---


def part_text(part: BgpItem | Pattern, writer: TermWriter) -> str:
    """The text of an operand of a conjunction; groups are abbreviated."""
    return item_text(part, writer) if isinstance(part, TriplePattern | PathPattern | TermPattern) else pattern_text(part, writer)


def parts_text(parts: Sequence[BgpItem | Pattern], writer: TermWriter) -> str:
    """The text of a conjunction: triple patterns in Turtle's notation, then groups."""
    items = [part for part in parts if isinstance(part, TriplePattern | PathPattern | TermPattern)]
    groups = [part for part in parts if not isinstance(part, TriplePattern | PathPattern | TermPattern)]
    return " . ".join(filter(None, [items_text(items, writer), *(pattern_text(group, writer) for group in groups)]))


def pattern_text(pattern: Pattern, writer: TermWriter) -> str:
    """A graph pattern in SPARQL, with `…` in the place of the contents of groups and
    sub-queries."""
    match pattern:
        case Bgp(items):
            return items_text(items, writer)
        case Join(left, right):
            return " . ".join(filter(None, [pattern_text(left, writer), pattern_text(right, writer)]))
        case LeftJoin(left, _, _):
            return f"{pattern_text(left, writer)} OPTIONAL {{ … }}".strip()
        case Union():
            return "{ … } UNION { … }"
        case Minus(left, _):
            return f"{pattern_text(left, writer)} MINUS {{ … }}".strip()
        case Filter(inner, _):
            return f"{pattern_text(inner, writer)} FILTER(…)"
        case Extend(inner, _, _):
            return pattern_text(inner, writer)
        case Values():
            return _values_text(pattern, writer)
        case Group(inner, keys, _):
            by = f" GROUP BY {' '.join(f'?{name}' for name, _ in keys)}" if keys else ""
            return f"{pattern_text(inner, writer)}{by}"
        case Select():
            return "{ SELECT … }"
        case WindowBlock(window, inner):
            return f"WINDOW {writer.text(window)} {{ {pattern_text(inner, writer)} }}"
        case MatchPattern():
            return "MATCH { … }"
        case _:
            assert_never(pattern)


def _values_text(values: Values, writer: TermWriter) -> str:
    names = " ".join(f"?{name}" for name in values.variables)
    rows = [" ".join("UNDEF" if term is None else writer.text(term) for term in row) for row in values.rows[:_MAX_ROWS]]
    more = ["…"] * (len(values.rows) > _MAX_ROWS)
    if len(values.variables) == 1:
        return f"VALUES {names} {{ {' '.join(rows + more)} }}"
    return f"VALUES ({names}) {{ {' '.join([*(f'({row})' for row in rows), *more])} }}"


def aggregate_texts(group: Group, writer: TermWriter) -> dict[Variable, str]:
    """The text of each aggregate of a group, by the variable that the parser introduced for it."""
    texts = {}
    for name, call in group.aggregates:
        argument = "*" if call.argument is None else brief_text(call.argument, writer.prefixes)
        texts[name] = f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument})"
    return texts


# --- Datalog ---


def atom_text(atom: TriplePattern, writer: TermWriter, bound: Mapping[Variable, Term] | None = None) -> str:
    """An atom in the notation `:p(?x, ?y)` or `:C(?x)`, with the bound variables replaced.

    >>> from dotr.model.algebra import Var
    >>> atom = TriplePattern(Var("x"), Const("<http://e/p>"), Var("y"))
    >>> atom_text(atom, TermWriter({"": "http://e/"}), {"x": "<http://e/a>"})
    ':p(:a, ?y)'
    """
    subject, value = slot_text(atom.subject, writer, bound), slot_text(atom.object, writer, bound)
    predicate = atom.predicate.term if isinstance(atom.predicate, Const) else (bound or {}).get(atom.predicate.name)
    if predicate is None:
        return f"[{subject}, {slot_text(atom.predicate, writer)}, {value}]"
    if predicate == RDF_TYPE:
        is_class = isinstance(atom.object, Const) or atom.object.name in (bound or {})
        return f"{value}({subject})" if is_class else f"[{subject}, a, {value}]"
    return f"{writer.text(predicate)}({subject}, {value})"


def body_item_text(item: BodyItem, writer: TermWriter, bound: Mapping[Variable, Term] | None = None) -> str:
    """An item of a rule's body."""
    match item:
        case TriplePattern():
            return atom_text(item, writer, bound)
        case Not((atom,)):
            return f"NOT {atom_text(atom, writer, bound)}"
        case Not(body):
            return f"NOT({', '.join(atom_text(atom, writer, bound) for atom in body)})"
        case FilterItem(condition):
            return f"FILTER({brief_text(condition, writer.prefixes)})"
        case Bind(expression, variable):
            return f"BIND({brief_text(expression, writer.prefixes)} AS ?{variable})"
        case GroupAggregate(_, keys, results):
            on = f" ON {' '.join(f'?{key}' for key in keys)}" if keys else ""
            return f"AGGREGATE(…{on} BIND {', '.join(f'{call.function}(…) AS ?{name}' for name, call in results)})"
        case _:
            assert_never(item)


# Text of a failed condition of a query or of a Datalog rule: its values, or its error.

_NUMBER: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_WITH_COMMA: Final = re.compile(r"\s*[+-]?[0-9]+,[0-9]+\s*")
_MAX_VALUES: Final = 5
_NO_TEXTS: Final[Mapping[Variable, str]] = {}


def failed_condition_text(
    condition: Expression,
    rows: Sequence[Mapping[Variable, Term]],
    errs: bool,
    writer: TermWriter,
    name: str = "",
    texts: Mapping[Variable, str] = _NO_TEXTS,
) -> str:
    """The text of a condition that is false for some rows, or an error for the first of them.

    Args:
        condition: the condition.
        rows: the terms of its variables, at least one row; only the first few are shown.
        errs: True if the condition is an error for the first row.
        writer: the writer of the explanation.
        name: a keyword before the condition in parentheses, such as `FILTER`; empty: neither.
        texts: the text of variables that the parser introduced, such as `AVG(?v)`.

    >>> from dotr.model.algebra import Call, Const
    >>> from dotr.model.terms import XSD
    >>> above = Call(">", (Var("v"), Const(f'"75"^^<{XSD}integer>')))
    >>> failed_condition_text(above, [{"v": f'"75"^^<{XSD}integer>'}, {"v": f'"3"^^<{XSD}integer>'}], False, TermWriter({}))
    '?v > 75 is false (75), (3)'
    >>> failed_condition_text(above, [{"v": '"35,5"'}], True, TermWriter({}))
    '?v > 75 errs: "35,5" is text. xsd:decimal(REPLACE(?v, ",", ".")) reads it.'
    """
    text = brief_text(condition, writer.prefixes)
    for variable, written in texts.items():
        text = text.replace(f"?{variable}", written)
    if name:
        text = f"{name}({text})"
    names = free_variables(condition)
    if errs and (reason := _error_text(names, condition, rows[0], writer)):
        return f"{text} errs: {reason}"
    shown = dict.fromkeys(_row_text(names, row, writer) for row in rows)
    values = ", ".join(list(shown)[:_MAX_VALUES]) + (", …" if len(shown) > _MAX_VALUES else "")
    return f"{text} {'errs' if errs else 'is false'}" + (f" {values}" if names else "")


def _row_text(names: Sequence[Variable], row: Mapping[Variable, Term], writer: TermWriter) -> str:
    for name in names:
        if name in row:
            writer.name_blank(row[name], name.lstrip("_:.") or "b")
    return f"({', '.join(writer.text(row[name]) if name in row else f'?{name} is unbound' for name in names)})"


def _error_text(names: Sequence[Variable], condition: Expression, row: Mapping[Variable, Term], writer: TermWriter) -> str:
    """The cause of an error, an unbound variable or text in arithmetic; empty if it is unknown."""
    missing = [name for name in names if name not in row]
    if missing:
        return f"?{missing[0]} is unbound"
    texts = [name for name in names if is_literal(row[name]) and not row[name].endswith(">") and _is_compared(name, condition)]
    if not texts:
        return ""
    values = list(dict.fromkeys(writer.text(row[name]) for name in texts))
    reason = f"{' and '.join(values)} {'is' if len(values) == 1 else 'are'} text"
    lexicals = [literal_parts(row[name])[0] for name in texts]
    them = "it" if len(texts) == 1 else "them"
    if all(map(_NUMBER.fullmatch, lexicals)):
        return f"{reason}. xsd:decimal(?{texts[0]}) reads {them}."
    if all(map(_WITH_COMMA.fullmatch, lexicals)):
        return f'{reason}. xsd:decimal(REPLACE(?{texts[0]}, ",", ".")) reads {them}.'
    return reason


def _is_compared(name: Variable, condition: Expression) -> bool:
    """True if a variable is an operand of a comparison or of arithmetic, not of a function."""
    return any(
        isinstance(part, Call) and Var(name) in part.arguments and not part.function[:1].isalpha() and not part.function.startswith("<h")
        for part in subexpressions(condition)
    )
