"""Codes of stage one: queries and conditions (Q), background knowledge (K1), Datalog files (K2), and
safety of Datalog rules (K3)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import RULE, ErrorCode, GoldenFile, InCondition, InFiles, InQuery, ShownMessage

_CONFIG = "name: example\nknowledge: {{ graphs: [{}] }}\nrules: [rules.dotr]\ninput: [{{ name: a, format: ndjson, path: a.ndjson }}]\n"
_CONFIG += "output: [{{ format: ndjson, path: out.ndjson }}]\n"


def _graph(name: str, text: str) -> InFiles:
    return InFiles((("example.yaml", _CONFIG.format(name)), (name, text), ("rules.dotr", RULE), ("a.ndjson", "")))


def _rule(text: str) -> InFiles:
    return InFiles((("rules.dlog", f"@prefix : <http://example.org/> .\n{text}\n"),))


KNOWLEDGE: tuple[ErrorCode, ...] = (
    ErrorCode(
        "K101",
        "There is no such graph",
        "A file of background knowledge was removed between the check of the configuration and its loading.",
        "Correct the path under `knowledge: graphs`.",
        ShownMessage("K101 kb/building.ttl: no such file\nkb holds building.dlog, city.ttl."),
    ),
    ErrorCode(
        "K102",
        "Unknown RDF syntax",
        "The extension of a file, without `.gz`, determines its syntax, unless `format` or the opening of the text does.",
        "Name the syntax: `{ path: rooms.txt, format: turtle }`, or rename or convert the file.",
        _graph("rooms.txt", "hall"),
    ),
    ErrorCode(
        "K103",
        "A graph cannot be read",
        "The file cannot be opened, or its gzip is damaged.",
        "Name a file that this user may read; compress it again.",
        ShownMessage("K103 kb/building.ttl.gz: damaged gzip file: Not a gzipped file (b'@p')\nCompress it again, or give the plain file."),
    ),
    ErrorCode(
        "K104",
        "A graph is not RDF",
        "The file violates its syntax. None of it was loaded. Where its opening says another syntax than its extension or `format`, it was "
        "read by both, and both reasons are shown.",
        "Correct the place shown.",
        _graph("rooms.ttl", "<http://example.org/hall> a .\n"),
    ),
    ErrorCode(
        "K106",
        "An N3 formula or rule",
        "N3 files may hold triples only.",
        "Write rules as Datalog.",
        _graph("rooms.n3", "{ <http://e/x> a <http://e/A> } => { <http://e/x> a <http://e/B> } .\n"),
    ),
    ErrorCode(
        "K107",
        "A remote JSON-LD context",
        "dotr fetches nothing from the network, including contexts.",
        "Name the file that stands for the context under `knowledge.contexts`, or write the context into the graph.",
        _graph("rooms.jsonld", '{ "@context": "https://schema.org/", "@id": "http://e/hall" }\n'),
    ),
    ErrorCode(
        "K108",
        "A graph in a syntax that is no RDF",
        "The file is in OWL/XML, OWL functional or Manchester syntax, OBO, HTML, or JSON without a context, as its opening shows.",
        "Convert it to RDF with the tool shown.",
        _graph("rooms.owl", "Prefix(:=<http://example.org/>)\nOntology(Declaration(Class(:Hall)))\n"),
    ),
    ErrorCode(
        "K139",
        "An imported ontology is not there",
        "A graph imports an ontology (`owl:imports`) that no graph holds and no file stands for. dotr fetches nothing, so the background "
        "is without it: its classes and properties have no meaning.",
        "Name its file by its IRI under `knowledge.imports`, or add it to `knowledge.graphs`; if it is not needed, accept the warning: "
        "`report: { accept: [K139] }`.",
        _graph(
            "rooms.ttl",
            "<http://example.org/> a <http://www.w3.org/2002/07/owl#Ontology> ;\n"
            "  <http://www.w3.org/2002/07/owl#imports> <http://www.w3.org/ns/sosa/> .\n",
        ),
    ),
)


def _datalog(code: str, title: str, meaning: str, remedy: str, stem: str = "") -> ErrorCode:
    return ErrorCode(code, title, meaning, remedy, GoldenFile(f"{stem or code}.dlog"))


DATALOG: tuple[ErrorCode, ...] = (
    _datalog(
        "K201", "Syntax error", "The text is not Datalog in the notation of the paper or of RDFox.", "Write one of the expected tokens."
    ),
    _datalog(
        "K202",
        "An unknown prefix",
        "The file does not declare the prefix. A file without declarations uses those of the configuration.",
        "Declare it.",
    ),
    _datalog(
        "K203",
        "An atom of the wrong arity",
        "`:C(?x)` is a class, `:p(?x, ?y)` a property, `[?s, ?p, ?o]` a triple.",
        "Write that many terms.",
    ),
    _datalog("K204", "A term in the wrong place", "A literal cannot be a subject; a predicate is an IRI or a variable.", "Swap the terms."),
    _datalog("K205", "A blank node in a rule", "A blank node of a rule would match nothing, since its name is unique.", "Use a variable."),
    _datalog("K206", "A relative IRI", "The file has no base IRI.", "Write it in full, or declare `@base`."),
    _datalog(
        "K207",
        "Unsupported Datalog",
        "SKOLEM is refused, as are conditions inside NOT, and NOT or AGGREGATE inside AGGREGATE.",
        "Write a separate rule for the negated or aggregated atoms.",
        "K207_filter_in_not",
    ),
    _datalog("K208", "A bracket or a string is not closed", "A bracket or a quote has no partner.", "Close it."),
    _datalog(
        "K209",
        "Another event in a Datalog rule",
        "A Datalog rule reads one instant: `M.?v`, `time(M)` and EXISTS are for temporal rules and queries.",
        "Write a temporal rule.",
    ),
    _datalog(
        "K211",
        "A quantified variable occurs outside",
        "`NOT EXISTS ?x IN …` makes ?x local to the negation.",
        "Rename one of the two.",
    ),
    ErrorCode(
        "K212",
        "A triple term with variables in a rule",
        "Atoms match whole terms; a triple term in an atom must be a constant.",
        "Decompose it by BIND(SUBJECT(?t) AS ?s), PREDICATE and OBJECT, or build it by BIND(TRIPLE(?s, ?p, ?o) AS ?t).",
        _rule("[?who, :said, ?x] :- [?who, :says, <<( :lamp :is ?x )>>] ."),
    ),
    ErrorCode(
        "K301",
        "The head has a variable that the body does not bind",
        "Every variable of the head needs a value from the body.",
        "Bind the variable by an atom, or by BIND.",
        _rule("[?x, :near, ?z] :- [?x, :in, ?y] ."),
    ),
    ErrorCode(
        "K302",
        "An unbound variable in a FILTER",
        "The condition would be an error for every solution.",
        "Bind the variable by an atom.",
        _rule(":Hot(?x) :- [?x, :val, ?v], FILTER(?w > 60) ."),
    ),
    ErrorCode(
        "K303",
        "An unbound variable in a BIND",
        "The expression would be an error for every solution.",
        "Bind the variable by an atom.",
        _rule("[?x, :twice, ?y] :- [?x, :val, ?v], BIND(?w * 2 AS ?y) ."),
    ),
    ErrorCode(
        "K305",
        "An AGGREGATE uses a variable that none of its atoms binds",
        "Groups and results are computed from the solutions of the atoms inside.",
        "Bind the variable by an atom inside the AGGREGATE.",
        _rule(":size[?room, ?n] :- AGGREGATE(:in[?x, ?y] ON ?room BIND COUNT(?x) AS ?n) ."),
    ),
    ErrorCode(
        "K306",
        "A variable of an AGGREGATE occurs outside of it",
        "A variable of an AGGREGATE that is not grouped by is local; a computed variable is visible outside only.",
        "Group by the variable, or rename one of the two.",
        _rule(":size[?room, ?n] :- :Sensor(?x), AGGREGATE(:in[?x, ?room] ON ?room BIND COUNT(?x) AS ?n) ."),
    ),
    ErrorCode(
        "K307",
        "Recursion through NOT or AGGREGATE",
        "Negated and aggregated atoms need a stratum below that of the rule, and here they depend on its head. Atoms depend on the rules "
        "whose heads have their predicate (and object, for classes); a variable matches any.",
        "Derive the negated atoms by rules that do not depend on this head.",
        _rule(":Free(?x) :- :Room(?x), NOT :Taken(?x) .\n:Taken(?x) :- :Room(?x), :booked[?x, ?by], NOT :Free(?x) ."),
    ),
    ErrorCode(
        "K308",
        "The closure of the background does not end",
        "The closed background has more than 2 million triples plus a hundred for each loaded one. "
        "Most likely a rule computes new terms without end.",
        "Bound the computed terms by a FILTER.",
        ShownMessage(
            "K308 the background: more than 2,000,300 triples\n"
            "A rule that computes new terms (BIND) from its own conclusions may never end: bound it by a FILTER."
        ),
    ),
    ErrorCode(
        "K309",
        "Too many variables or atoms in a rule",
        "A body has at most 80 variables: each may become a nested loop of the generated code. It has at most 128 atoms, since a "
        "join of all atoms begins at each of them.",
        "Split the rule: derive the join of some atoms by a separate rule.",
        _rule(":a[?x0, ?x0] :- " + ", ".join(f":p[?x{i}, ?x{i + 1}]" for i in range(81)) + " ."),
    ),
    ErrorCode(
        "K401",
        "The background is inconsistent",
        "A rule of the entailment with the head `false` matches the background alone.",
        "Correct the graphs, or choose another entailment. It is a warning: the derived triples are used nevertheless.",
        InFiles(
            (
                ("example.yaml", _CONFIG.format("both.ttl").replace(" }", ", entailment: owl2rl }", 1)),
                ("both.ttl", "@prefix : <http://example.org/> .\n:B <http://www.w3.org/2002/07/owl#disjointWith> :C .\n:x a :B, :C .\n"),
                ("rules.dotr", RULE),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "K402",
        "An instant is inconsistent, by itself or with the background",
        "A rule of the entailment with the head `false` matches this instant. Each premise is shown with its origin: an element of the "
        "instant, the background, or derived from both. Later instants are not affected.",
        "Correct the data; `dotr why CONFIG --at T` shows what derives each premise. The facts of the instant are those of its closure; "
        "with `knowledge.inconsistent: reject` all elements of the instant become dead letters instead (reason `inconsistent`), and it "
        "counts as no instant.",
        ShownMessage(
            "K402 warning: the instant 12 is inconsistent (cax-dw: <http://example.org/#Fire> <http://www.w3.org/2002/07/owl#disjointWith> "
            "<http://example.org/#Ice> (background), <http://example.org/#x> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
            "<http://example.org/#Fire> (instant), <http://example.org/#x> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
            "<http://example.org/#Ice> (derived))\n"
            "Its facts are those of what was derived; `knowledge.inconsistent: reject` makes such instants dead letters."
        ),
    ),
    ErrorCode(
        "K403",
        "Windows merge the values of a functional property",
        "Under `owl2rl` a window is closed as one graph. Two different values of a functional property of data that one subject has "
        "within it are a contradiction (row dt-diff), though each instant has one value.",
        "Take the axiom out of the background, or give each reading a subject of its own. It is a warning: the contradictions are "
        "reported, and the events are those of what was derived.",
        ShownMessage(
            "K403 warning: <http://example.org/#value> is functional, and the windows of query Mean merge its values of several instants\n"
            "Two different values of one subject in a window are a contradiction (dt-diff): take the axiom out of the background, or give "
            "each reading a subject of its own."
        ),
    ),
    ErrorCode(
        "K404",
        "A literal outside the range of its property",
        "The background has a literal that is not of the datatype which `rdfs:range` names. By the tables that is a contradiction "
        "(dt-not-type); here it is a warning, once a property.",
        "Mend the value or the range.",
        ShownMessage(
            'K404 warning: <http://example.org/#value> has the value "high", which is not in its range '
            "<http://www.w3.org/2001/XMLSchema#integer>\n"
            "dt-not-type does not count: nothing contradicts. Mend the value, or the range; further values are not told."
        ),
    ),
    ErrorCode(
        "K501",
        "The compiled background cannot be used",
        "The file is damaged, truncated, of another format, or not one of dotr's. The background is read and closed again, and the file "
        "is written again.",
        "No data are lost. If it happens again, check the disk.",
        ShownMessage(
            "K501 warning: the compiled background /cache/16d4….dotrkb is damaged (section triples); rebuilding it from its sources\n"
            "Nothing is lost. If this happens again, check the disk."
        ),
    ),
    ErrorCode(
        "K502",
        "The compiled background cannot be written",
        "The folder may not be written by this user, or the disk is full. The run holds its background in memory instead, once per "
        "process, with the same output.",
        "Name a folder that can be written as `knowledge.cache`, or free space on the disk.",
        ShownMessage(
            "K502 warning: the compiled background /cache/16d4….dotrkb cannot be used: permission denied; this run holds its background in "
            "memory\nName a folder that can be written as `knowledge.cache`, or make room."
        ),
    ),
    ErrorCode(
        "K503",
        "The background is too large",
        "A compiled background numbers its terms, and the triples of each predicate, with 32 bits.",
        "Divide the background among several pipelines.",
        ShownMessage("K503 the background is too large: 4,294,967,296 terms, where a compiled store can number 4,294,967,295"),
    ),
)

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
