"""The codes of queries and conditions (Q), and of templates (T)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import ErrorCode, InCondition, InQuery, InTemplate

QUERIES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "Q101",
        "Not SPARQL",
        "The text does not follow SPARQL 1.1's grammar at this place.",
        "Write what can stand there.",
        InQuery("SELECT ?x WHERE { ?x :p ?y } LIMIT 10 FILTER(?y > 1)"),
    ),
    ErrorCode(
        "Q102",
        "A bracket or a string is not closed",
        "A bracket or a quote has no partner.",
        "Add it.",
        InQuery("SELECT ?x WHERE { ?x :p (?y }"),
    ),
    ErrorCode(
        "Q103",
        "An unknown word",
        "A word is neither a keyword nor a function of SPARQL 1.1.",
        "Mend it; a name needs a prefix (`:room`), a variable its question mark.",
        InQuery("SELECT ?x WHERE { ?x :p ?y FILTR(?y > 1) }"),
    ),
    ErrorCode(
        "Q104",
        "An unknown prefix",
        "The file declares no such prefix. A rule file without any PREFIX uses the configuration's; one with a PREFIX its own only.",
        "Declare it, or mend it.",
        InQuery("SELECT ?x WHERE { ?x rdf:type :Smoke }"),
    ),
    ErrorCode(
        "Q105", "A relative IRI", "There is no base that it could be relative to.", "Write it in full.", InQuery("SELECT ?x { ?x <p> ?y }")
    ),
    ErrorCode(
        "Q106",
        "Not a SELECT",
        "An event's query must be a SELECT: what is built is said by `define`, and a query changes nothing.",
        "Write SELECT.",
        InQuery("CONSTRUCT { ?x :p ?y } WHERE { ?x :p ?y }"),
    ),
    ErrorCode(
        "Q107",
        "Another graph or endpoint",
        "A query is asked of one graph: the knowledge at one instant. SERVICE, FROM and GRAPH would leave it.",
        "Load what it needs as background knowledge.",
        InQuery("SELECT ?x WHERE { SERVICE <http://example.org/sparql> { ?x :p ?y } }"),
    ),
    ErrorCode(
        "Q108",
        "Not a function of the input",
        "NOW, RAND, UUID, STRUUID and BNODE give another answer each time. The output of a run is a function of its input.",
        "Use `time(L)`, or names `dotr_id…` in the template.",
        InQuery("SELECT ?x WHERE { ?x :until ?end FILTER(?end < NOW()) }"),
    ),
    ErrorCode(
        "Q109",
        "Another event inside a part of the query",
        "`M.?v` and `time(M)` may stand in a FILTER of the WHERE group itself only: the rest of the query is answered before events are "
        "related.",
        "Write a FILTER of its own, not inside OPTIONAL, MINUS, UNION, EXISTS, BIND or a sub-query.",
        InQuery("SELECT ?x WHERE { ?x :p ?y OPTIONAL { ?x :in ?z FILTER(?z = Smoke.?room) } }"),
    ),
    ErrorCode(
        "Q110",
        "Not a variable of the query",
        "A variable was expected, and `M.?v` is the attribute of another event.",
        "Name a variable of its own.",
        InQuery("SELECT (?v AS Smoke.?room) WHERE { ?x :p ?v }"),
    ),
    ErrorCode(
        "Q111",
        "The variable has a value already",
        "BIND, AS and VALUES give a value to a new variable.",
        "Take a new name, or compare in a FILTER.",
        InQuery("SELECT ?x WHERE { ?x :p ?y BIND(1 AS ?y) }"),
    ),
    ErrorCode(
        "Q112",
        "Neither grouped nor aggregated",
        "With GROUP BY a column must be one of the keys or an aggregate.",
        "Group by it, or take SAMPLE of it.",
        InQuery("SELECT ?x (COUNT(*) AS ?n) WHERE { ?x :p ?y } GROUP BY ?y"),
    ),
    ErrorCode(
        "Q113",
        "An aggregate where none may stand",
        "SPARQL's aggregates stand in the SELECT line, HAVING and ORDER BY. An aggregate over events is a clause of the rule.",
        "Write `and ?n = count(*) of E within … from …`.",
        InCondition("COUNT(*) > 3"),
    ),
    ErrorCode(
        "Q114",
        "A row of VALUES is too short or too long",
        "Each row has one value a variable.",
        "Write UNDEF for none.",
        InQuery("SELECT ?x WHERE { VALUES (?x ?y) { (:a :b) (:c) } }"),
    ),
    ErrorCode(
        "Q115",
        "There is no such function",
        "Functions with an IRI are the casts of XSD, with one argument.",
        "Use one of them, or a function of SPARQL.",
        InQuery("SELECT ?x WHERE { ?x :p ?y FILTER(:near(?x, ?y)) }"),
    ),
    ErrorCode(
        "Q116",
        "A blank node in two graph patterns",
        "SPARQL lets a blank node's label stand in one basic graph pattern only.",
        "Use a variable.",
        InQuery("SELECT ?x WHERE { _:n :p ?x { _:n :q ?y } }"),
    ),
    ErrorCode(
        "Q117",
        "Nested too deeply",
        "More than 150 brackets are open at once; or operators, functions and the parts of groups (OPTIONAL, MINUS, BIND, a group behind "
        "groups) are in each other, or on top of each other, for more than 128 levels. Chains of operands, branches of UNION, triples and "
        "FILTERs may be as long as they are.",
        "Split it into several conditions or sub-queries.",
        InQuery("SELECT ?x WHERE { ?x :p ?y FILTER(" + "(" * 150 + "?y" + ")" * 150 + ") }"),
    ),
    ErrorCode(
        "Q118",
        "EXISTS outside a query",
        "EXISTS is asked of the graph of an instant; `if`, `with` and conditions on events by label have none.",
        "Put it into the event's query.",
        InCondition("EXISTS { ?x :p ?y }"),
    ),
    ErrorCode(
        "Q119",
        "A condition needs a variable that is not projected",
        "With DISTINCT, GROUP BY, LIMIT or OFFSET a condition on another event applies to the query's solutions, so that these must "
        "hold what it needs.",
        "Add the variable to the SELECT line.",
        InQuery("SELECT DISTINCT ?x WHERE { ?x :p ?y FILTER(?y = Smoke.?room) }"),
    ),
    ErrorCode(
        "Q120",
        "A regular expression that cannot be used",
        "Patterns are matched in time linear in the text; back-references and look-around are not possible then.",
        "Write the pattern without them.",
        InQuery(r'SELECT ?x WHERE { ?x :p ?y FILTER(REGEX(?y, "(a)\\1")) }'),
    ),
    ErrorCode(
        "Q121",
        "A quoted triple that is none, or where none can stand",
        "A triple term `<<( s p o )>>` (SPARQL 1.2) has three parts: a subject that is no literal and no triple term, a predicate that is "
        "an IRI or a variable, and an object; no paths, lists or brackets with something in them. It stands where an object or a value "
        "stands. `<< s p o >>` and an annotation `{| … |}` speak of what reifies a triple, which is a node of the graph: they stand in "
        "triples alone, behind a single predicate.",
        "Write `<< … >>` where something is said of the triple, `<<( … )>>` where the triple itself is meant.",
        InQuery("SELECT ?who WHERE { <<( :lamp :is :on )>> :by ?who }"),
    ),
)

TEMPLATES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "T101",
        "Not Turtle",
        "The template does not follow Turtle's grammar at this place.",
        "Write what can stand there.",
        InTemplate(":fire a Fire"),
    ),
    ErrorCode(
        "T102",
        "A bracket, a list or a string is not closed",
        "It has no end, or an escape in it is none.",
        "Close it.",
        InTemplate(":fire :at [ :in ?room"),
    ),
    ErrorCode(
        "T103",
        "An unknown prefix",
        "The file declares no such prefix. A `map` uses the configuration's `prefixes`.",
        "Declare it, or mend it.",
        InTemplate("dotr_id1 rdf:type :Fire"),
    ),
    ErrorCode(
        "T104",
        "An IRI that is none",
        "It is relative, or holds a character that an IRI cannot.",
        "Write it in full.",
        InTemplate("<fire> a :Fire"),
    ),
    ErrorCode(
        "T105",
        "Out of place",
        "Cells `{column}` belong to the `map` of a CSV input, variables and `dotr_id…` to `define`.",
        "In a map write `{column}`, in define `?variable`.",
        InTemplate("[] :speed ?speed", cells=True),
    ),
    ErrorCode(
        "T106",
        "Not RDF",
        "A literal cannot be a subject; a predicate is an IRI.",
        "Turn the triple round, or name the thing.",
        InTemplate('"hall" :has :fire'),
    ),
)
