"""Codes of queries and conditions (Q), and of templates (T)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import ErrorCode, InCondition, InQuery, InTemplate, ShownMessage

QUERIES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "Q101",
        "Not SPARQL",
        "The text does not follow the grammar of SPARQL 1.1 at this place.",
        "Write one of the expected tokens.",
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
        "The word is neither a keyword nor a function of SPARQL 1.1.",
        "Correct it; a name needs a prefix (`:room`), a variable its question mark.",
        InQuery("SELECT ?x WHERE { ?x :p ?y FILTR(?y > 1) }"),
    ),
    ErrorCode(
        "Q104",
        "An unknown prefix",
        "The file does not declare the prefix. A rule file without any PREFIX uses those of the configuration; otherwise only its own.",
        "Declare the prefix, or correct it.",
        InQuery("SELECT ?x WHERE { ?x rdf:type :Smoke }"),
    ),
    ErrorCode("Q105", "A relative IRI", "The query has no base IRI.", "Write it in full.", InQuery("SELECT ?x { ?x <p> ?y }")),
    ErrorCode(
        "Q106",
        "Not a SELECT",
        "The query of an event must be a SELECT: `define` builds the output graph, and a query changes no data.",
        "Write SELECT.",
        InQuery("CONSTRUCT { ?x :p ?y } WHERE { ?x :p ?y }"),
    ),
    ErrorCode(
        "Q107",
        "Another graph or endpoint",
        "A query reads one graph: the knowledge at one instant. SERVICE, FROM and GRAPH would read others.",
        "Load the other data as background knowledge.",
        InQuery("SELECT ?x WHERE { SERVICE <http://example.org/sparql> { ?x :p ?y } }"),
    ),
    ErrorCode(
        "Q108",
        "Not a function of the input",
        "NOW, RAND, UUID, STRUUID and BNODE return another value at each call. The output of a run is a function of its input.",
        "Use `time(L)`, or names `dotr_id…` in the template.",
        InQuery("SELECT ?x WHERE { ?x :until ?end FILTER(?end < NOW()) }"),
    ),
    ErrorCode(
        "Q109",
        "Another event inside a part of the query",
        "`M.?v` and `time(M)` are allowed only in a FILTER of the WHERE group itself: the rest of the query is evaluated before events are "
        "related.",
        "Write a separate FILTER, outside OPTIONAL, MINUS, UNION, EXISTS, BIND and sub-queries.",
        InQuery("SELECT ?x WHERE { ?x :p ?y OPTIONAL { ?x :in ?z FILTER(?z = Smoke.?room) } }"),
    ),
    ErrorCode(
        "Q110",
        "Not a variable of the query",
        "A variable was expected, and `M.?v` is the attribute of another event.",
        "Write a variable of the query.",
        InQuery("SELECT (?v AS Smoke.?room) WHERE { ?x :p ?v }"),
    ),
    ErrorCode(
        "Q111",
        "The variable has a value already",
        "BIND, AS and VALUES assign new variables only.",
        "Use a new name, or compare in a FILTER.",
        InQuery("SELECT ?x WHERE { ?x :p ?y BIND(1 AS ?y) }"),
    ),
    ErrorCode(
        "Q112",
        "Neither grouped nor aggregated",
        "With GROUP BY a column must be one of the keys or an aggregate.",
        "Group by it, or use SAMPLE of it.",
        InQuery("SELECT ?x (COUNT(*) AS ?n) WHERE { ?x :p ?y } GROUP BY ?y"),
    ),
    ErrorCode(
        "Q113",
        "An aggregate at a place without grouping",
        "SPARQL allows aggregates in the SELECT line, HAVING and ORDER BY. An aggregate over events is a clause of the rule.",
        "Write `and ?n = count(*) of E within … from …`.",
        InCondition("COUNT(*) > 3"),
    ),
    ErrorCode(
        "Q114",
        "A row of VALUES is too short or too long",
        "Each row has one value per variable.",
        "Write UNDEF for an unbound variable.",
        InQuery("SELECT ?x WHERE { VALUES (?x ?y) { (:a :b) (:c) } }"),
    ),
    ErrorCode(
        "Q115",
        "Unknown function",
        "Functions with an IRI are the casts of XSD, with one argument.",
        "Use one of them, or a function of SPARQL.",
        InQuery("SELECT ?x WHERE { ?x :p ?y FILTER(:near(?x, ?y)) }"),
    ),
    ErrorCode(
        "Q116",
        "A blank node in two graph patterns",
        "In SPARQL the label of a blank node may occur in one basic graph pattern only.",
        "Use a variable.",
        InQuery("SELECT ?x WHERE { _:n :p ?x { _:n :q ?y } }"),
    ),
    ErrorCode(
        "Q117",
        "Nested too deeply",
        "More than 150 brackets are open at once; or operators, functions and the parts of groups (OPTIONAL, MINUS, BIND, a group after "
        "groups) are nested, or follow each other, for more than 128 levels; or a path has more than 256 steps, or more than "
        "512 triples are joined with each other (an item of a collection is two). Chains of operands, branches of UNION, alternatives of "
        "paths, and FILTERs have no limit.",
        "Split it into several conditions or sub-queries.",
        InQuery("SELECT ?x WHERE { ?x :p ?y FILTER(" + "(" * 150 + "?y" + ")" * 150 + ") }"),
    ),
    ErrorCode(
        "Q118",
        "EXISTS outside a query",
        "EXISTS reads the graph of an instant; `if`, `with` and conditions on events by label have none.",
        "Move it into the query of the event.",
        InCondition("EXISTS { ?x :p ?y }"),
    ),
    ErrorCode(
        "Q119",
        "A condition needs a variable that is not projected",
        "With DISTINCT, GROUP BY, LIMIT or OFFSET a condition on another event applies to the solutions of the query, which must "
        "therefore hold its variables.",
        "Add the variable to the SELECT line.",
        InQuery("SELECT DISTINCT ?x WHERE { ?x :p ?y FILTER(?y = Smoke.?room) }"),
    ),
    ErrorCode(
        "Q120",
        "A regular expression that cannot be used",
        "Patterns are matched in time linear in the text, which excludes back-references and look-around.",
        "Write the pattern without these.",
        InQuery(r'SELECT ?x WHERE { ?x :p ?y FILTER(REGEX(?y, "(a)\\1")) }'),
    ),
    ErrorCode(
        "Q121",
        "An invalid or misplaced quoted triple",
        "A triple term `<<( s p o )>>` (SPARQL 1.2) has a subject that is no literal and no triple term, a predicate that is an IRI or a "
        "variable, and an object; paths, lists and non-empty brackets are not allowed. It is an object or a value. `<< s p o >>` and an "
        "annotation `{| … |}` denote the reifier of a triple, a node of the graph: they are allowed in triples only, after a single "
        "predicate.",
        "Write `<< … >>` for the reifier of a triple, `<<( … )>>` for the triple term itself.",
        InQuery("SELECT ?who WHERE { <<( :lamp :is :on )>> :by ?who }"),
    ),
    ErrorCode(
        "Q157",
        "No such time zone",
        "`<urn:dotr:function:inZone>(?time, ZONE)` names a zone that Python's `zoneinfo` does not have on this machine.",
        "Write a name as in Europe/Berlin or America/New_York.",
        InQuery('SELECT ?x WHERE { ?x :at ?t FILTER(hours(<urn:dotr:function:inZone>(?t, "Europe/Berlim")) < 6) }'),
    ),
)

TEMPLATES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "T101",
        "Not Turtle",
        "The template does not follow the grammar of Turtle at this place.",
        "Write one of the expected tokens.",
        InTemplate(":fire a Fire"),
    ),
    ErrorCode(
        "T102",
        "A bracket, a list or a string is not closed",
        "A bracket, list or quote has no end, or a string has an invalid escape.",
        "Close it, or correct the escape.",
        InTemplate(":fire :at [ :in ?room"),
    ),
    ErrorCode(
        "T103",
        "An unknown prefix",
        "The file does not declare the prefix. A `map` uses the `prefixes` of the configuration.",
        "Declare the prefix, or correct it.",
        InTemplate("dotr_id1 rdf:type :Fire"),
    ),
    ErrorCode(
        "T104",
        "An invalid IRI",
        "It is relative, or has a character that is not allowed in an IRI.",
        "Write it in full.",
        InTemplate("<fire> a :Fire"),
    ),
    ErrorCode(
        "T105",
        "A misplaced variable, name or cell",
        "Cells `{column}` belong to the `map` of an input, variables and `dotr_id…` to `define`.",
        "In a map write `{column}`, in define `?variable`.",
        InTemplate("[] :speed ?speed", cells=True),
    ),
    ErrorCode(
        "T106",
        "Not RDF",
        "A literal cannot be a subject; a predicate is an IRI.",
        "Swap subject and object, or use an IRI.",
        InTemplate('"hall" :has :fire'),
    ),
    ErrorCode(
        "T107",
        "A cell of a map cannot be read",
        'A path names members, one after the other (`a.b`; `"a.b"` for a name with a dot), items (`a[0]`) and each item of a list (`a[]`). '
        "The path of `time` has one value, that of `each` ends with `[]`; the lists of several paths of `each` are in the same object, "
        "or in the same items of outer lists. Cells that begin with `$` say where a record comes from: "
        "messages have `$topic`, `$key` and others, files `$file` and `$stem` (docs/inputs.md lists them); a text is `$value`.",
        'Correct the path, or name what the input has. A column or member whose name begins with `$` is written in quotes: `{"$id"}`.',
        ShownMessage(
            "map of input rooms:1:12: T107 a member's name is missing after a.\nA path is written a.b, a[0] or a[]: docs/inputs.md."
        ),
    ),
    ErrorCode(
        "T108",
        "A map cannot repeat two lists together",
        "A path with `[]` repeats its property list in brackets, or its one triple. All such paths of that part must use the same list: "
        "combining each item of one list with each item of another is hardly intended.",
        "Write each list in brackets of its own.",
        ShownMessage(
            "map of input rooms:1:25: T108 {x[].n} and {y[].n} go through two lists: each item with each\n"
            "Write each list in brackets of its own, or only paths that go through the same list."
        ),
    ),
    ErrorCode(
        "T109",
        "A number of a record that is in no file",
        "`{$number}` in a `map` is the number of the record in its file, from 1 on, and of Kafka the offset. Standard input, and what "
        "arrives by MQTT or HTTP, is in no file.",
        "Give the messages a number or an ID of their own, or use `$received` as their time.",
        ShownMessage(
            "map of input rooms:1:12: T109 {$number} is the number of a record in its file, and a message is in none\n"
            "Files have numbers, and Kafka has offsets; give what arrives a number of its own."
        ),
    ),
    ErrorCode(
        "T110",
        "A type inside of a name or a text",
        "A cell by itself may have a type, `{speed:decimal}`, which makes a whole term. Inside of an IRI, a name or quotes it is text.",
        'Leave the type out; a column whose name ends like a type is written in quotes: `{"speed:decimal"}`.',
        InTemplate("[] :speed :v{speed:decimal}", cells=True),
    ),
)
