"""Pass 14: finds uncorrelated clauses: no condition joins them to their rule, although one could.

Before: `from Smoke and last Temp within 1 h from Smoke`, both with ?room. After: the same rule, and
a warning at `Temp`.
Idea: constraints and conditions of `if`, except comparisons by order, are ties: edges of a graph of
the rule's labels. In each connected component without the anchor the first clause is reported, if
an event bound before it has an attribute of the same name, or with values from the same place of a
pattern.
Invariant: no warning is for a measure. A measure is an attribute that some rule compares by order,
calculates with or averages, and every attribute with values from the same places: two readings need
not be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, assert_never

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.expressions.kinds import TermKind, term_kind
from dotr.languages.codes import RuleCode
from dotr.languages.rules.program import (
    ProgramDraft,
    RoleDraft,
    RoleOrigin,
    RoleUse,
    RuleDraft,
    SplitQuery,
    event_reads,
    role_attributes,
    warning,
)
from dotr.languages.rules.syntax import AggregateSyntax, BetweenSyntax, ChooseSyntax, TicksSyntax, WindowSyntax
from dotr.model.algebra import (
    Attribute,
    Bgp,
    Call,
    Const,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    MatchPattern,
    Minus,
    Path,
    PathPattern,
    Pattern,
    Select,
    Slot,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
    is_arithmetic,
    is_hidden,
)
from dotr.model.graphs import least_fixpoint
from dotr.model.places import Span
from dotr.model.rules import Mode
from dotr.model.terms import RDF_TYPE, Label, Variable
from dotr.model.traverse import conjuncts, in_scope, parameters_of, subexpressions, walk
from dotr.syntax import scan

_ORDER: Final = frozenset({"<", "<=", ">", ">="})
_OF_NUMBERS: Final = frozenset({"sum", "avg", "min", "max", "median", "quantile", "variance", "stddev"})
_TYPE: Final = Const(RDF_TYPE)


def check_uncorrelated(program: ProgramDraft) -> ProgramDraft:
    """Report the warning D321, in programs without errors."""
    if not program.is_error_free:
        return program
    events = event_places(program)
    measures = frozenset(place for rule in program.rules for place in _measures(rule, events))
    return program.with_problems([problem for rule in program.rules for problem in _uncorrelated_clauses(rule, program, events, measures)])


def _uncorrelated_clauses(
    rule: RuleDraft, program: ProgramDraft, events: EventPlaces, measures: frozenset[ValuePlace]
) -> Iterator[Diagnostic]:
    groups = _connected([role.label.text for role in rule.roles], _ties(rule))
    reported = [groups[rule.roles[0].label.text]]
    for position, role in enumerate(rule.roles):
        group = groups[role.label.text]
        if group in reported:
            continue
        reported.append(group)
        own = _comparable_places(role, program, events, measures)
        for other in _bound_before(rule, position):
            if _pairs_equals(rule, position, other, program):
                continue
            theirs = _visible_places(other, program, events, measures)
            if role.use is other.use is RoleUse.CHOSEN and (role.source_label.text, role.origin) == (other.source_label.text, other.origin):
                theirs = {name: places for name, places in theirs.items() if not _is_object(places)}  # two look-ups may differ in values
            pair = _common(own, theirs, isinstance(other.syntax, TicksSyntax))
            if pair is not None:
                yield _uncorrelated_warning(role, other, *pair)
                break


def _visible_places(role: RoleDraft, program: ProgramDraft, events: EventPlaces, measures: frozenset[ValuePlace]) -> AttributePlaces:
    """The places of a bound event's attributes that a constraint can name, without measures."""
    places = role_places(role, events)
    visible = role_attributes(role, program.event_attributes) or ()
    return {name: places[name] for name in visible if name in places and not places[name] & measures}


def _comparable_places(role: RoleDraft, program: ProgramDraft, events: EventPlaces, measures: frozenset[ValuePlace]) -> AttributePlaces:
    """The places of the attributes that could join a clause to its rule.

    Attributes that its conditions name, as in `FILTER(?room != :attic)`, are left out, and so are
    subjects of a class, which may be the event itself.
    """
    if role.query is None or role.origin is not RoleOrigin.OWN:
        places = _visible_places(role, program, events, measures)
    else:
        places = {name: found for name, found in role_places(role, events).items() if not found & measures and not is_hidden(name)}
    conditions = [*role.filters, *([role.query.select, *role.query.constraints] if role.query else [])]
    named = {name for condition in conditions for name in _condition_variables(condition)}
    return {name: found for name, found in places.items() if name not in named and ValuePlace(False, _TYPE) not in found}


def _condition_variables(node: Expression | Select) -> Iterator[Variable]:
    for call in walk(node):
        if isinstance(call, Call):
            yield from (part.name for part in subexpressions(call) if isinstance(part, Var))


def _uncorrelated_warning(role: RoleDraft, other: RoleDraft, name: Variable, other_name: Variable) -> Diagnostic:
    message = f"nothing ties {role.label.text} to {other.label.text}: any {role.label.text} in the window counts, whatever its ?{name}"
    hint = (
        f"Did you mean FILTER(?{name} = {other.label.text}.?{other_name})? "
        f"If every ?{name} is meant, write above the rule: # dotr: allow {RuleCode.UNTIED} (the reason)"
    )
    return warning(RuleCode.UNTIED, message, role.label.span, hint)


def _bound_before(rule: RuleDraft, position: int) -> list[RoleDraft]:
    """The roles that a constraint of a clause can refer to, that of its window first."""
    bound = [role for role in rule.roles[:position] if role.use.binds_label]
    match rule.roles[position].scope:
        case WindowSyntax(_, reference) | BetweenSyntax(_, reference):
            return sorted(bound, key=lambda role: role.label.text != reference.text)
        case None:
            return bound


def _pairs_equals(rule: RuleDraft, position: int, other: RoleDraft, program: ProgramDraft) -> bool:
    """True for `from Tick as A and each Tick as B` with one attribute.

    A join on it would pair each event only with its equals, which is not meant.
    """
    role, clause = rule.roles[position], rule.syntax.clauses[position - 1]
    same_source = role.source_label.text == other.source_label.text and role.origin is other.origin
    attributes = role_attributes(role, program.event_attributes) or ()
    return isinstance(clause, ChooseSyntax) and clause.mode is Mode.EACH and same_source and len(attributes) == 1


def _common(own: AttributePlaces, theirs: AttributePlaces, of_ticks: bool) -> tuple[Variable, Variable] | None:
    """The best pair of attributes for a join: one name and one place, one name, or one place.

    A pair of objects is better than one of subjects. Without a common place a common name is enough
    for objects. The attributes of ticks are terms of the background, hence no events. None if there
    is no pair.
    """
    ranked: list[tuple[int, Variable, Variable]] = []
    for name, places in own.items():
        for other_name, other_places in theirs.items():
            shared = places & other_places
            by_object = any(place.is_object and place.predicate != _TYPE for place in shared)
            by_subject = any(not place.is_object and place.predicate != _TYPE for place in shared)
            if name == other_name and by_object:
                ranked.append((0, name, other_name))
            elif name == other_name and _is_object(places) and (of_ticks or _is_object(other_places)):
                ranked.append((1, name, other_name))
            elif by_object:
                ranked.append((2, name, other_name))
            elif name == other_name and by_subject:
                ranked.append((3, name, other_name))
    return min(ranked)[1:] if ranked else None


def _is_object(places: Iterable[ValuePlace]) -> bool:
    return any(place.is_object and place.predicate != _TYPE for place in places)


# --- ties ---


def _ties(rule: RuleDraft) -> Iterator[frozenset[Label]]:
    """The labels of each condition that can join events."""
    for role in rule.roles:
        for constraint in (*(role.query.constraints if role.query else ()), *role.filters):
            yield _labels(constraint, {}) | {role.label.text}
    if rule.condition is not None:
        aggregated = {
            clause.variable.text: clause.event.label.text for clause in rule.syntax.clauses if isinstance(clause, AggregateSyntax)
        }
        for part in conjuncts(rule.condition):
            if not (isinstance(part, Call) and part.function in _ORDER):
                yield _labels(part, aggregated)


def _labels(expression: Expression, aggregated: Mapping[Variable, Label]) -> frozenset[Label]:
    parts = subexpressions(expression)
    own = {aggregated[part.name] for part in parts if isinstance(part, Var) and part.name in aggregated}
    return frozenset({part.label for part in parts if isinstance(part, Attribute)} | own)


def _connected(labels: Sequence[Label], ties: Iterable[frozenset[Label]]) -> Mapping[Label, frozenset[Label]]:
    """The connected component of each label, with the ties as edges.

    >>> sorted(_connected("abc", [frozenset("ac")])["c"]), sorted(_connected("abc", [])["b"])
    (['a', 'c'], ['b'])
    """
    groups = {label: frozenset({label}) for label in labels}
    for tie in ties:
        merged = tie.union(*(groups[label] for label in tie))
        groups.update(dict.fromkeys(merged, merged))
    return groups


# --- measures ---


def _measures(rule: RuleDraft, events: EventPlaces) -> Iterator[ValuePlace]:
    """The places of the attributes that a rule compares by order, calculates with or averages."""
    bound: dict[Label, AttributePlaces] = {}
    for role, clause in zip(rule.roles, (None, *rule.syntax.clauses), strict=True):
        own = role_places(role, events)
        if role.query is not None:
            yield from _measured(role.query.select, own, bound)
        for condition in (*(role.query.constraints if role.query else ()), *role.filters):
            yield from _measured(condition, own, bound)
        if isinstance(clause, AggregateSyntax) and clause.argument is not None and clause.function.text.lower() in _OF_NUMBERS:
            yield from own.get(clause.argument[1].text, ())
        bound[role.label.text] = own
    for expression in (rule.condition, *rule.expressions):
        if expression is not None:
            yield from _measured(expression, {}, bound)


def _measured(node: Expression | Select, own: AttributePlaces, bound: EventPlaces) -> Iterator[ValuePlace]:
    for each in walk(node):
        match each:
            case Call(function, arguments) if function in _ORDER or is_arithmetic(function) or _compares_number(each):
                measured: Iterable[Expression] = arguments
            case Group(_, _, aggregates):
                measured = [call.argument for _, call in aggregates if call.argument and call.function.lower() in _OF_NUMBERS]
            case _:
                continue
        for part in (part for expression in measured for part in subexpressions(expression)):
            if isinstance(part, Var):
                yield from own.get(part.name, ())
            elif isinstance(part, Attribute):
                yield from bound.get(part.label, {}).get(part.name, ())


def _compares_number(call: Call) -> bool:
    return call.function in ("=", "!=") and any(isinstance(a, Const) and term_kind(a.term) is TermKind.NUMBER for a in call.arguments)


# Places of values: the positions in patterns that bind the attributes of queries and events.
#
# Idea: two attributes whose values are objects of one predicate have values of one kind, such as
# rooms. So have an event's attribute and the attribute that `with` copies to it.


class ValuePlace(NamedTuple):
    """The subjects, or the objects (`is_object`), of a predicate or path."""

    is_object: bool
    predicate: Const | Path


AttributePlaces: TypeAlias = Mapping[Variable, frozenset[ValuePlace]]
"""The places of each attribute's values; none for a computed one."""


def query_places(pattern: Pattern) -> AttributePlaces:
    """The places of each variable of a query.

    >>> from dotr.model.algebra import Bgp
    >>> places = query_places(Bgp((TriplePattern(Var("r"), Const("<in>"), Var("room")),)))
    >>> places["room"]
    frozenset({ValuePlace(is_object=True, predicate=Const(term='<in>'))})
    """
    places: dict[Variable, frozenset[ValuePlace]] = {}

    def add(slot: Slot, place: ValuePlace) -> None:
        if isinstance(slot, Var):
            places[slot.name] = places.get(slot.name, frozenset()) | {place}

    for node in walk(pattern):
        match node:
            case TriplePattern(subject, Const() as predicate, object):
                add(subject, ValuePlace(False, predicate))
                add(object, ValuePlace(True, predicate))
            case PathPattern(subject, path, object):
                add(subject, ValuePlace(False, path))
                add(object, ValuePlace(True, path))
            case _:
                pass
    return places


EventPlaces: TypeAlias = Mapping[Label, AttributePlaces]


def event_places(program: ProgramDraft) -> EventPlaces:
    """The places of each event's attributes: those of the attributes that `with` copies to them.

    They are a least fixpoint, as rules may be recursive.
    """
    rules = program.rules_by_event
    start: EventPlaces = {label: dict.fromkeys(names, frozenset()) for label, names in program.event_attributes.items()}
    return least_fixpoint(start, event_reads(rules), lambda label, events: _copied_places(rules[label], events[label], events))


def role_places(role: RoleDraft, events: EventPlaces) -> AttributePlaces:
    """The places of all variables of a role's query, or of its event's attributes."""
    if role.origin is RoleOrigin.EVENT:
        return events.get(role.source_label.text, {})
    return query_places(role.query.select) if role.query else {}


def _copied_places(rules: Iterable[RuleDraft], known: AttributePlaces, events: EventPlaces) -> AttributePlaces:
    attributes = dict(known)
    for rule in rules:
        roles = {role.label.text: role for role in rule.roles}
        for assignment, expression in zip(rule.syntax.assignments, rule.expressions, strict=False):
            if isinstance(expression, Attribute) and expression.label in roles:
                places = role_places(roles[expression.label], events).get(expression.name, frozenset())
                attributes[assignment.variable.text] |= places
    return attributes


# Pass 13: finds cross products in queries: parts of a group that share no variable.
#
# Before: `SELECT ?a ?b { ?a :temp ?t . ?b :smoke ?s }`. After: the same query, and a warning at `?b`.
# Idea: variables, conditions and BIND connect the parts of a group. Every connected component after
# the first gives a warning. Parts without variables and VALUES are left out: they have few solutions.
# Each group is checked by itself.


_VariableSet: TypeAlias = frozenset[Variable]


def check_products(program: ProgramDraft) -> ProgramDraft:
    """Report the warning D319, in programs without errors."""
    if not program.is_error_free:
        return program
    own = [role.query for rule in program.rules for role in rule.roles if role.origin is RoleOrigin.OWN]
    queries = [*(query.query for query in program.queries), *own]
    return program.with_problems([problem for query in queries if query is not None for problem in _cross_products(query)])


def _cross_products(query: SplitQuery) -> Iterator[Diagnostic]:
    for first, second in _unconnected(query.select, ()):
        a, b = _visible_variable(first), _visible_variable(second)
        if a and b:
            hint = "Connect the two by a variable or a FILTER, or write two clauses of the rule."
            message = f"a cross product: nothing connects ?{b} with ?{a}, so that all are paired with all"
            yield warning(RuleCode.CROSS_PRODUCT, message, _variable_span(query.text, b), hint)


def _visible_variable(names: _VariableSet) -> Variable:
    """The least variable by name that is in the text of the query; empty if all are hidden."""
    return min((name for name in names if not is_hidden(name)), default="")


def _variable_span(text: Span, name: Variable) -> Span:
    spans = [Span(text.document, *t.span()) for t in scan.tokens(text) if t.lastgroup == "variable" and t[0][1:] == name]
    body = text.document.text.find("{", text.start)
    return next((span for span in spans if span.start > body), spans[0] if spans else text)


def _unconnected(pattern: Pattern, links: Sequence[_VariableSet]) -> Iterator[tuple[_VariableSet, _VariableSet]]:
    """For each group, its first component with each other one; `links` connect parts too."""
    match pattern:
        case Bgp() | Join() | LeftJoin():
            parts, conditions = _group_parts(pattern)
            groups = _components([names for names in parts if names], [*links, *conditions])
            yield from ((groups[0], other) for other in groups[1:])
            for nested in _nested_groups(pattern):
                yield from _unconnected(nested, ())
        case Filter(inner, expressions):
            yield from _unconnected(inner, [*links, *map(_linked_variables, expressions)])
        case Extend(inner, variable, expression):
            yield from _unconnected(inner, [*links, _linked_variables(expression) | {variable}])
        case Group(inner) | Minus(inner):
            yield from _unconnected(inner, links if isinstance(pattern, Minus) else ())
        case Select(_, inner):
            yield from _unconnected(inner, ())
        case Union(left, right):
            yield from _unconnected(left, ())
            yield from _unconnected(right, ())
        case WindowBlock(_, inner):
            yield from _unconnected(inner, links)
        case Values() | MatchPattern():
            pass
        case _:
            assert_never(pattern)


def _linked_variables(expression: Expression) -> _VariableSet:
    """The variables of an expression, and those in scope of its EXISTS."""
    variables: set[Variable] = set()
    for parameter in parameters_of([expression]):
        if isinstance(parameter, Var):
            variables.add(parameter.name)
        elif isinstance(parameter, Exists):
            variables.update(in_scope(parameter.pattern))
    return frozenset(variables)


def _group_parts(pattern: Pattern) -> tuple[list[_VariableSet], list[_VariableSet]]:
    """The variables of each part of a joined group, and of each condition between the parts."""
    match pattern:
        case Bgp(patterns):
            return [frozenset(in_scope(Bgp((each,)))) for each in patterns], []
        case Join(left, right) | LeftJoin(left, right):
            (left_parts, left_conditions), (right_parts, right_conditions) = _group_parts(left), _group_parts(right)
            if isinstance(pattern, LeftJoin):
                right_parts = [frozenset().union(*right_parts)]
                right_conditions = [] if pattern.condition is None else [_linked_variables(pattern.condition)]
            return left_parts + right_parts, left_conditions + right_conditions
        case Values():
            return [], []
        case Filter(inner, expressions):
            parts, conditions = _group_parts(inner)
            return parts, conditions + [_linked_variables(each) for each in expressions]
        case Extend(inner, variable, expression):
            parts, conditions = _group_parts(inner)
            return parts, [*conditions, _linked_variables(expression) | {variable}]
        case _:
            return [frozenset(in_scope(pattern))], []


def _nested_groups(pattern: Pattern) -> Iterator[Pattern]:
    """The groups nested in a group."""
    match pattern:
        case Join(left, right):
            yield from _nested_groups(left)
            yield from _nested_groups(right)
        case LeftJoin(left, right):
            yield from _nested_groups(left)
            yield right
        case Filter(inner) | Extend(inner):
            yield from _nested_groups(inner)
        case Union() | Select() | Minus() | Group():
            yield pattern
        case _:
            pass


def _components(parts: Sequence[_VariableSet], links: Sequence[_VariableSet]) -> list[_VariableSet]:
    """Connected components of the parts: parts with a common variable or link are merged.

    >>> parts = [frozenset("ab"), frozenset("c"), frozenset("de")]
    >>> [sorted(component) for component in _components(parts, [frozenset("bd")])]
    [['a', 'b', 'd', 'e'], ['c']]
    """
    components: list[_VariableSet] = []
    variables = frozenset().union(*parts)
    for part in [*parts, *(link & variables for link in links)]:
        if part:
            connected = [component for component in components if component & part]
            merged = part.union(*connected)
            index = components.index(connected[0]) if connected else len(components)
            components = [component for component in components if component not in connected]
            components.insert(index, merged)
    return components
