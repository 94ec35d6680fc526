"""Translation of each construct of SPARQL 1.1 to the algebra; terms keep their written form."""

from __future__ import annotations

from typing import Final

import pytest

from dotr.model.algebra import (
    AggregateCall,
    Alternative,
    Attribute,
    Bgp,
    BgpItem,
    Call,
    Const,
    Direction,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    Negated,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Sequence,
    TimeOf,
    TriplePattern,
    Union,
    Values,
    Var,
)
from dotr.model.places import Document, Span
from dotr.model.terms import RDF_FIRST, RDF_NIL, RDF_REST, RDF_TYPE, TRUE, XSD, Term, literal
from dotr.model.traverse import in_scope
from dotr.syntax.sparql import Reference, parse_expression, parse_filters, parse_select, scan_references, split_constraints

pytestmark = pytest.mark.core

PREFIXES: Final = {"": "http://e/", "xsd": XSD}
A, B, C, P, Q = (Const(f"<http://e/{name}>") for name in "abcpq")
X, Y, Z = Var("x"), Var("y"), Var("z")


def whole(text: str) -> Span:
    return Span(Document("q", text), 0, len(text))


def select(text: str) -> Select:
    return parse_select(whole(text), PREFIXES)


def where(text: str) -> Pattern:
    return select(f"SELECT * WHERE {{ {text} }}").pattern


def expression(text: str) -> Expression:
    return parse_expression(whole(text), PREFIXES)


def integer(text: str) -> Const:
    return Const(literal(text, XSD + "integer"))


def triple(pattern: Pattern) -> BgpItem:
    assert isinstance(pattern, Bgp)
    (only,) = pattern.patterns
    return only


XPY: Final = TriplePattern(X, P, Y)
ONE: Final = Bgp((XPY,))
OTHER: Final = Bgp((TriplePattern(Y, Q, Z),))


class TestTerms:
    @pytest.mark.parametrize(
        ("text", "term"),
        [
            (":a", A.term),
            ("<http://e/a>", A.term),
            (r":a\.b", "<http://e/a.b>"),
            (":a%20b", "<http://e/a%20b>"),
            ("025", literal("025", XSD + "integer")),
            ("-025", literal("-025", XSD + "integer")),
            ("+5", literal("+5", XSD + "integer")),
            ("1.50", literal("1.50", XSD + "decimal")),
            (".5", literal(".5", XSD + "decimal")),
            ("-1e0", literal("-1e0", XSD + "double")),
            ("1.E3", literal("1.E3", XSD + "double")),
            ("true", TRUE),
            ('"025"^^xsd:integer', literal("025", XSD + "integer")),
            ('"warm"@EN-gb', '"warm"@en-gb'),
            ('"salaam"@AR-eg--rtl', '"salaam"@ar-eg--rtl'),
            ("'x'@en--ltr", '"x"@en--ltr'),
            ('"a"^^xsd:string', '"a"'),
            (r"'say \"hi\"\n'", '"say \\"hi\\"\\n"'),
            ('"""two\nlines "quoted" """', '"two\\nlines \\"quoted\\" "'),
            ("'''it's'''", '"it\'s"'),
            (r'"\u00e9\U0001F600"', '"é😀"'),
        ],
    )
    def test_term_keeps_its_written_form(self, text: str, term: Term) -> None:
        assert triple(where(f"?x :p {text}")) == TriplePattern(X, P, Const(term))

    def test_prefix_of_query_overrides_given_one(self) -> None:
        assert select("PREFIX : <http://other/> SELECT * { ?x :p ?y }").pattern == Bgp((TriplePattern(X, Const("<http://other/p>"), Y),))

    def test_relative_iri_is_resolved_against_base(self) -> None:
        assert triple(select("BASE <http://e/d/> SELECT * { <a> <#f> <../c> }").pattern) == TriplePattern(
            Const("<http://e/d/a>"), Const("<http://e/d/#f>"), C
        )

    def test_comment_is_ignored(self) -> None:
        assert where("?x :p ?y # } ?z\n") == ONE

    def test_span_within_a_document_is_parsed(self) -> None:
        text = "from Smoke = [ SELECT ?x { ?x :p ?y } ]"
        assert parse_select(Span(Document("r", text), 14, 38), PREFIXES) == Select(("x",), ONE)


class TestTriples:
    def test_abbreviated_triples_are_expanded(self) -> None:
        assert where("?x :p ?y, ?z ; a :c .") == Bgp((XPY, TriplePattern(X, P, Z), TriplePattern(X, Const(RDF_TYPE), C)))

    def test_blank_node_is_a_hidden_variable(self) -> None:
        query = select("SELECT * { [ :p ?x ] :q _:n . _:n :p [] }")
        assert isinstance(query.pattern, Bgp)
        (first, second, third) = query.pattern.patterns
        assert isinstance(first, TriplePattern)
        assert isinstance(second, TriplePattern)
        assert first.subject == second.subject
        assert second.object == Var("_:n")
        assert query.projection == ("x",)
        names = [v for v in in_scope(query.pattern) if v.startswith("_:")]
        assert len(names) == 3
        assert isinstance(third, TriplePattern)

    def test_list_is_expanded_to_triples(self) -> None:
        pattern = where('?x :p (1 "b")')
        assert isinstance(pattern, Bgp)
        predicates = [p.predicate for p in pattern.patterns if isinstance(p, TriplePattern)]
        assert sorted(map(repr, predicates)) == sorted(map(repr, [P, Const(RDF_FIRST), Const(RDF_REST), Const(RDF_FIRST), Const(RDF_REST)]))
        assert Const(RDF_NIL) in [p.object for p in pattern.patterns]

    def test_parsing_twice_gives_equal_queries(self) -> None:
        text = "SELECT * { [] :p ?x ; :q/:p ?y }"
        assert select(text) == select(text)


class TestPaths:
    def test_link_sequence_and_inverse_become_triples(self) -> None:
        pattern = where("?x :p/^:q ?y")
        assert isinstance(pattern, Bgp)
        first, second = pattern.patterns
        assert isinstance(first, TriplePattern)
        middle = first.object
        assert (first, second) == (TriplePattern(X, P, middle), TriplePattern(Y, Q, middle))
        assert isinstance(middle, Var)
        assert middle.name.startswith("_:")

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            (":p*", Repeat(Link(P.term), 0, True)),
            (":p+", Repeat(Link(P.term), 1, True)),
            (":p ?", Repeat(Link(P.term), 0, False)),
            (":p|:q", Alternative(Link(P.term), Link(Q.term))),
            ("(:p/:q)*", Repeat(Sequence(Link(P.term), Link(Q.term)), 0, True)),
            ("(^:p)+", Repeat(Inverse(Link(P.term)), 1, True)),
            ("!:p", Negated((P.term,), None)),
            ("!^:p", Negated(None, (P.term,))),
            ("!(:p|^:q|a)", Negated((P.term, RDF_TYPE), (Q.term,))),
            ("!(^a)", Negated(None, (RDF_TYPE,))),
            ("!()", Negated((), None)),
            ("(:p|!:q)", Alternative(Link(P.term), Negated((Q.term,), None))),
        ],
    )
    def test_path_is_parsed(self, text: str, path: object) -> None:
        found = triple(where(f"?x {text} ?y"))
        assert found == PathPattern(X, path, Y)  # type: ignore[arg-type]

    def test_inverse_of_a_path_swaps_its_ends(self) -> None:
        assert triple(where("?x ^(:p*) ?y")) == PathPattern(Y, Repeat(Link(P.term), 0, True), X)


class TestGroups:
    def test_groups_are_joined(self) -> None:
        assert where("?x :p ?y { ?y :q ?z }") == Join(ONE, OTHER)

    def test_filter_does_not_split_a_basic_graph_pattern(self) -> None:
        condition = Call(">", (Y, integer("1")))
        assert where("?x :p ?y FILTER(?y > 1) ?y :q ?z") == Filter(Bgp((XPY, TriplePattern(Y, Q, Z))), (condition,))

    def test_filter_at_any_position_applies_to_its_group(self) -> None:
        one, two = Call(">", (Y, integer("1"))), Call("BOUND", (Z,))
        assert where("FILTER(?y > 1 && bound(?z)) ?x :p ?y") == Filter(ONE, (one, two))

    def test_disjunction_is_one_conjunct(self) -> None:
        pattern = where("?x :p ?y FILTER(?y = 1 || ?y = 2 && ?x = :a)")
        assert isinstance(pattern, Filter)
        assert [c.function for c in pattern.conditions if isinstance(c, Call)] == ["||"]

    def test_optional_has_filters_of_its_own_group_as_condition(self) -> None:
        condition = Call("=", (X, Z))
        assert where("?x :p ?y OPTIONAL { ?y :q ?z FILTER(?x = ?z) }") == LeftJoin(ONE, OTHER, condition)

    def test_optional_keeps_filters_of_a_nested_group_inside(self) -> None:
        condition = Call("=", (X, Z))
        assert where("?x :p ?y OPTIONAL { { ?y :q ?z FILTER(?x = ?z) } }") == LeftJoin(ONE, Filter(OTHER, (condition,)), None)

    def test_union_of_three_is_nested(self) -> None:
        third = Bgp((TriplePattern(Z, P, A),))
        assert where("{ ?x :p ?y } UNION { ?y :q ?z } UNION { ?z :p :a }") == Union(Union(ONE, OTHER), third)

    def test_minus_is_parsed(self) -> None:
        assert where("?x :p ?y MINUS { ?y :q ?z }") == Minus(ONE, OTHER)

    def test_exists_is_parsed(self) -> None:
        assert where("?x :p ?y FILTER NOT EXISTS { ?y :q ?z }") == Filter(ONE, (Exists(OTHER, True),))
        assert where("?x :p ?y FILTER(EXISTS { ?y :q ?z })") == Filter(ONE, (Exists(OTHER, False),))

    def test_bind_ends_a_basic_graph_pattern(self) -> None:
        bound = Extend(ONE, "w", Call("*", (Y, integer("2"))))
        assert where("?x :p ?y BIND(?y * 2 AS ?w) ?y :q ?z") == Join(bound, OTHER)

    def test_values_are_parsed(self) -> None:
        assert where("VALUES (?x ?y) { (:a UNDEF) (-1 'b'@en) }") == Values(("x", "y"), ((A.term, None), (integer("-1").term, '"b"@en')))
        assert where("VALUES ?x { :a :b }") == Values(("x",), ((A.term,), (B.term,)))
        assert where("VALUES () { () }") == Values((), ((),))
        assert where("VALUES ?x { }") == Values(("x",), ())

    def test_values_after_the_query_are_joined(self) -> None:
        assert select("SELECT * { ?x :p ?y } VALUES ?x { :a }").pattern == Join(ONE, Values(("x",), ((A.term,),)))

    def test_sub_query_is_parsed(self) -> None:
        assert where("?x :p ?y { SELECT ?y (?z AS ?w) { ?y :q ?z } LIMIT 1 }") == Join(
            ONE, Select(("y", "w"), Extend(OTHER, "w", Z), limit=1)
        )

    def test_empty_group_has_one_solution(self) -> None:
        assert where("") == Bgp(())


class TestModifiers:
    def test_all_modifiers_are_parsed(self) -> None:
        query = select("SELECT DISTINCT ?x (?y + 1 AS ?n) { ?x :p ?y } ORDER BY DESC(?y) ?x LIMIT 10 OFFSET 5")
        assert query.projection == ("x", "n")
        assert query.distinct
        assert query.pattern == Extend(ONE, "n", Call("+", (Y, integer("1"))))
        assert [(k.expression, k.direction) for k in query.order] == [(Y, Direction.DESCENDING), (X, Direction.ASCENDING)]
        assert (query.limit, query.offset) == (10, 5)

    def test_reduced_keeps_every_solution(self) -> None:
        assert not select("SELECT REDUCED ?x { ?x :p ?y }").distinct

    def test_star_projects_variables_in_order_of_appearance(self) -> None:
        assert select("SELECT * { ?y :q ?z . ?x :p ?y }").projection == ("y", "z", "x")

    def test_grouping_is_parsed(self) -> None:
        query = select("SELECT ?x (AVG(?y) / 2 AS ?half) { ?x :p ?y } GROUP BY ?x HAVING (COUNT(*) > 1)")
        pattern = query.pattern
        assert isinstance(pattern, Extend)
        assert isinstance(pattern.pattern, Filter)
        group = pattern.pattern.pattern
        assert isinstance(group, Group)
        assert group.pattern == ONE
        assert group.keys == (("x", X),)
        (average, first), (many, second) = group.aggregates
        assert first == AggregateCall("AVG", False, Y)
        assert second == AggregateCall("COUNT", False, None)
        assert pattern.expression == Call("/", (Var(average), integer("2")))
        assert pattern.pattern.conditions == (Call(">", (Var(many), integer("1"))),)

    def test_repeated_aggregate_is_computed_once(self) -> None:
        query = select("SELECT (SUM(?y) AS ?a) (SUM(?y) + 1 AS ?b) (SUM(DISTINCT ?y) AS ?c) { ?x :p ?y }")
        found: Pattern = query.pattern
        while isinstance(found, Extend):
            found = found.pattern
        assert isinstance(found, Group)
        assert found.keys == ()
        assert [call for _, call in found.aggregates] == [AggregateCall("SUM", False, Y), AggregateCall("SUM", True, Y)]

    def test_group_concat_keeps_its_separator(self) -> None:
        query = select('SELECT (GROUP_CONCAT(DISTINCT ?y; SEPARATOR=", ") AS ?a) { ?x :p ?y }')
        assert isinstance(query.pattern, Extend)
        assert isinstance(query.pattern.pattern, Group)
        assert query.pattern.pattern.aggregates[0][1] == AggregateCall("GROUP_CONCAT", True, Y, ", ")

    def test_group_by_an_expression_has_a_fresh_key(self) -> None:
        query = select("SELECT ?k { ?x :p ?y } GROUP BY (STR(?y) AS ?k)")
        assert isinstance(query.pattern, Group)
        assert query.pattern.keys == (("k", Call("STR", (Y,))),)

    def test_order_by_an_ungrouped_variable_uses_sample(self) -> None:
        query = select("SELECT ?x { ?x :p ?y } GROUP BY ?x ORDER BY ?y")
        assert isinstance(query.pattern, Group)
        ((name, call),) = query.pattern.aggregates
        assert call == AggregateCall("SAMPLE", False, Y)
        assert query.order[0].expression == Var(name)


class TestExpressions:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("?x + ?y * 2 - 1", Call("-", (Call("+", (X, Call("*", (Y, integer("2"))))), integer("1")))),
            ("?x -1", Call("-", (X, integer("1")))),
            ("?x - -1", Call("-", (X, integer("-1")))),
            ("-?x", Call("UNARY-", (X,))),
            ("- 1", Call("UNARY-", (integer("1"),))),
            ("-1", integer("-1")),
            ("!?x || ?y", Call("||", (Call("!", (X,)), Y))),
            ("?x && ?y && ?z", Call("&&", (Call("&&", (X, Y)), Z))),
            ("?x IN (1, -2)", Call("IN", (X, integer("1"), integer("-2")))),
            ("?x not  in ()", Call("NOT IN", (X,))),
            ("isURI(uri(?x))", Call("ISIRI", (Call("IRI", (X,)),))),
            ("sameTerm(?x, ?y)", Call("SAMETERM", (X, Y))),
            ('regex(?x, "^a", "i")', Call("REGEX", (X, Const('"^a"'), Const('"i"')))),
            ("coalesce(?x, 1)", Call("COALESCE", (X, integer("1")))),
            ("if(bound(?x), ?x, 1)", Call("IF", (Call("BOUND", (X,)), X, integer("1")))),
            ("xsd:integer(?x)", Call(f"<{XSD}integer>", (X,))),
            ("concat()", Call("CONCAT", ())),
            ("((((?x))))", X),
        ],
    )
    def test_expression_is_parsed(self, text: str, expected: Expression) -> None:
        assert expression(text) == expected

    def test_many_parentheses_are_parsed(self) -> None:
        assert expression("(" * 140 + "?x" + ")" * 140) == X

    def test_three_hundred_triples_are_parsed(self) -> None:
        pattern = where(" ".join(f"?x :p {i} ." for i in range(300)))
        assert isinstance(pattern, Bgp)
        assert len(pattern.patterns) == 300


class TestTemporalConstraints:
    def test_query_of_the_paper_has_one_constraint(self) -> None:
        query = select("SELECT ?x { ?x :p ?y. ?y :q ?z. FILTER (?z > 60 && ?y = Smoke.?room1) }")
        constraint = Call("=", (Y, Attribute("Smoke", "room1")))
        rest, constraints = split_constraints(query)
        assert constraints == (constraint,)
        assert rest == select("SELECT ?x { ?x :p ?y. ?y :q ?z. FILTER (?z > 60) }")

    def test_query_with_constraints_only_keeps_no_filter(self) -> None:
        rest, constraints = split_constraints(select("SELECT ?y { ?x :p ?y FILTER(?y = Smoke.?r || !bound(Smoke.?r)) }"))
        assert rest.pattern == ONE
        assert len(constraints) == 1

    def test_constraint_under_grouping_is_split_off(self) -> None:
        text = "SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y %s } GROUP BY ?x HAVING (COUNT(*) > 1)"
        rest, constraints = split_constraints(select(text % "FILTER(?x = Smoke.?r)"))
        assert rest == select(text % "")
        assert constraints == (Call("=", (X, Attribute("Smoke", "r"))),)

    @pytest.mark.parametrize(
        "text", ["Smoke.?v < ?x", "?x IN (1, Smoke.?v)", "abs(?x - Smoke.?v) < 1", "bound(Smoke.?v)", "?x = Smoke . ?v", "!(Smoke.$v = ?x)"]
    )
    def test_reference_is_allowed_at_each_place_of_a_variable(self, text: str) -> None:
        assert scan_references(whole(text))[0].variable == "v"
        assert "Attribute(label='Smoke', name='v')" in repr(expression(text))

    def test_time_of_a_label_is_parsed(self) -> None:
        assert expression("time(Smoke) - TIME( Last )") == Call("-", (TimeOf("Smoke"), TimeOf("Last")))

    def test_text_similar_to_a_reference_is_no_reference(self) -> None:
        text = """SELECT * { ?x :p :Smoke.?y :p true.?z :p "A.?b", 'C.?d', '''E.?f''' . # G.?h
                   ?s <http://e/I.?j> 5 .?k :p L.?m }"""
        assert [r.label for r in scan_references(whole(text))] == ["L"]

    def test_references_have_spans(self) -> None:
        text = "?x = Smoke.?y && time(Last) > 5"
        found = scan_references(whole(text))
        assert [(r.label, r.variable, r.span.text) for r in found] == [("Smoke", "y", "Smoke.?y"), ("Last", None, "time(Last)")]
        assert isinstance(found[0], Reference)

    def test_filters_after_a_label_are_parsed(self) -> None:
        assert parse_filters(whole(" FILTER(?x = 1 && ?y = Smoke.?v) FILTER bound(?z)"), PREFIXES) == (
            Call("=", (X, integer("1"))),
            Call("=", (Y, Attribute("Smoke", "v"))),
            Call("BOUND", (Z,)),
        )
        assert parse_filters(whole("  # nothing\n"), PREFIXES) == ()
