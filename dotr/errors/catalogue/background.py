"""The codes of background knowledge (K1), Datalog files (K2) and the safety of their rules (K3)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import RULE, ErrorCode, GoldenFile, InFiles, ShownMessage

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
        "A file of background knowledge went away between the check of the configuration and its loading.",
        "Mend the path under `knowledge: graphs`.",
        ShownMessage("K101 kb/building.ttl: no such file\nkb holds building.dlog, city.ttl."),
    ),
    ErrorCode(
        "K102",
        "Unknown RDF syntax",
        "The syntax of a graph is told by its file's extension, `.gz` apart.",
        "Rename or convert the file.",
        _graph("rooms.txt", "hall"),
    ),
    ErrorCode(
        "K103",
        "A graph cannot be read",
        "The file cannot be opened, or its gzip is damaged.",
        "Give a file that this user may read; compress it again.",
        ShownMessage("K103 kb/building.ttl.gz: damaged gzip file: Not a gzipped file (b'@p')\nCompress it again, or give the plain file."),
    ),
    ErrorCode(
        "K104",
        "A graph is not RDF",
        "The file breaks its syntax. Nothing of it was loaded.",
        "Mend the place shown.",
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
        "A JSON-LD context elsewhere",
        "Nothing is fetched from the network, contexts neither.",
        "Write the context into the file, or convert it.",
        _graph("rooms.jsonld", '{ "@context": "https://schema.org/", "@id": "http://e/hall" }\n'),
    ),
)


def _datalog(code: str, title: str, meaning: str, way_out: str, stem: str = "") -> ErrorCode:
    return ErrorCode(code, title, meaning, way_out, GoldenFile(f"{stem or code}.dlog"))


DATALOG: tuple[ErrorCode, ...] = (
    _datalog(
        "K201", "Something else was expected", "The text is no Datalog in the paper's notation or RDFox's.", "Write what can stand there."
    ),
    _datalog("K202", "An unknown prefix", "The file declares no such prefix. A file without any uses the configuration's.", "Declare it."),
    _datalog(
        "K203",
        "An atom of the wrong size",
        "`:C(?x)` is a class, `:p(?x, ?y)` a property, `[?s, ?p, ?o]` a triple.",
        "Give it that many terms.",
    ),
    _datalog(
        "K204", "A term in the wrong place", "A literal cannot be a subject; a predicate is an IRI or a variable.", "Turn them round."
    ),
    _datalog("K205", "A blank node in a rule", "In a rule a blank node would be a name that nothing else has.", "Use a variable."),
    _datalog("K206", "A relative IRI", "There is no base that it could be relative to.", "Write it in full, or declare `@base`."),
    _datalog(
        "K207",
        "Not part of this Datalog",
        "SKOLEM is refused, and so is what NOT and AGGREGATE cannot hold: conditions inside NOT, NOT and AGGREGATE inside AGGREGATE.",
        "Write a rule of its own for what is negated or aggregated.",
        "K207_filter_in_not",
    ),
    _datalog("K208", "A bracket or a string is not closed", "It has no end.", "Close it."),
    _datalog(
        "K209",
        "Another event in a Datalog rule",
        "A Datalog rule is about one instant: `M.?v`, `time(M)` and EXISTS belong to temporal rules and queries.",
        "Write a temporal rule.",
    ),
    _datalog(
        "K211",
        "A quantified variable occurs outside",
        "`NOT EXISTS ?x IN …` says that ?x belongs to the negation alone.",
        "Rename one of the two.",
    ),
    ErrorCode(
        "K212",
        "A triple term with variables in a rule",
        "Atoms match terms as they are; a triple term is a constant there.",
        "Take it apart by BIND(SUBJECT(?t) AS ?s), PREDICATE and OBJECT, or make it by BIND(TRIPLE(?s, ?p, ?o) AS ?t).",
        _rule("[?who, :said, ?x] :- [?who, :says, <<( :lamp :is ?x )>>] ."),
    ),
    ErrorCode(
        "K301",
        "The head has a variable that the body does not bind",
        "A rule derives triples about terms that are there.",
        "Bind the variable by an atom, or by BIND.",
        _rule("[?x, :near, ?z] :- [?x, :in, ?y] ."),
    ),
    ErrorCode(
        "K302",
        "A FILTER has a variable that nothing binds",
        "Its condition could never hold.",
        "Bind the variable by an atom.",
        _rule(":Hot(?x) :- [?x, :val, ?v], FILTER(?w > 60) ."),
    ),
    ErrorCode(
        "K303",
        "A BIND has a variable that nothing binds",
        "Its expression could never have a value.",
        "Bind the variable by an atom.",
        _rule("[?x, :twice, ?y] :- [?x, :val, ?v], BIND(?w * 2 AS ?y) ."),
    ),
    ErrorCode(
        "K305",
        "An AGGREGATE asks for a variable that nothing in it binds",
        "Groups and results are made of the solutions of the atoms inside.",
        "Bind the variable by an atom inside the AGGREGATE.",
        _rule(":size[?room, ?n] :- AGGREGATE(:in[?x, ?y] ON ?room BIND COUNT(?x) AS ?n) ."),
    ),
    ErrorCode(
        "K306",
        "A variable of an AGGREGATE occurs outside of it",
        "A variable inside an AGGREGATE that it does not group by is its own; what it computes is known outside alone.",
        "Group by the variable, or rename one of the two.",
        _rule(":size[?room, ?n] :- :Sensor(?x), AGGREGATE(:in[?x, ?room] ON ?room BIND COUNT(?x) AS ?n) ."),
    ),
    ErrorCode(
        "K307",
        "Recursion through NOT or AGGREGATE",
        "What is negated or aggregated must be settled first, and here it depends on what follows from it. Atoms depend on the rules whose "
        "heads have their predicate (and object: a class is told from another); a variable stands for any.",
        "Derive what is negated by rules that do not depend on what they conclude.",
        _rule(":Free(?x) :- :Room(?x), NOT :Taken(?x) .\n:Taken(?x) :- :Room(?x), :booked[?x, ?by], NOT :Free(?x) ."),
    ),
    ErrorCode(
        "K308",
        "The background never ends",
        "The closed background has more triples than 2 million, and a hundred for each loaded: most likely a rule computes ever new terms.",
        "Bound what the rule computes by a FILTER.",
        ShownMessage(
            "K308 the background: more than 2,000,300 triples\n"
            "A rule that computes new terms (BIND) from its own conclusions may never end: bound it by a FILTER."
        ),
    ),
    ErrorCode(
        "K309",
        "Too many variables in a rule",
        "A body has at most 80 variables: each may be a loop in the loops of those before it.",
        "Divide the rule: let one of its own conclude what some of the atoms say together.",
        _rule(":a[?x0, ?x0] :- " + ", ".join(f":p[?x{i}, ?x{i + 1}]" for i in range(81)) + " ."),
    ),
    ErrorCode(
        "K401",
        "The background contradicts itself",
        "A rule of the entailment that derives a contradiction has a match in the background alone.",
        "Mend the graphs, or choose another entailment. It is a warning: what was derived is used all the same.",
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
        "An instant contradicts itself or the background",
        "A row of the entailment that says `false` has found its premises at this instant: each is shown with where it comes from, an "
        "element of the instant, the background, or what the two derive. Later instants know nothing of it.",
        "Mend the data. The instant's facts are those of what was derived; with `knowledge.inconsistent: reject` all its elements become "
        "dead letters instead (reason `inconsistent`), and it makes no instant.",
        ShownMessage(
            "K402 warning: the instant 12 is inconsistent (cax-dw: <http://example.org/#Fire> <http://www.w3.org/2002/07/owl#disjointWith> "
            "<http://example.org/#Ice> (background), <http://example.org/#x> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
            "<http://example.org/#Fire> (instant), <http://example.org/#x> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
            "<http://example.org/#Ice> (derived))\n"
            "Its facts are those of what was derived; `knowledge.inconsistent: reject` makes such instants dead letters."
        ),
    ),
    ErrorCode(
        "K501",
        "The compiled background cannot be used",
        "Its file is damaged, cut off, of another format, or not one of dotr's. It is never believed: the background is read and closed "
        "again, and the file is written again.",
        "Nothing is lost but time. If it happens again, look after the disk.",
        ShownMessage(
            "K501 warning: the compiled background /cache/16d4….dotrkb is damaged (section triples); it is made again from its sources\n"
            "Nothing is lost. If it happens again, is the disk in order?"
        ),
    ),
    ErrorCode(
        "K502",
        "The compiled background cannot be written",
        "The folder may not be written by this user, or the disk is full. The run holds its background in memory instead: each process "
        "for itself, with the same output.",
        "Name a folder that can be written as `knowledge.cache`, or make room.",
        ShownMessage(
            "K502 warning: the compiled background /cache/16d4….dotrkb cannot be used: permission denied; this run holds its background in "
            "memory\nName a folder that can be written as `knowledge.cache`, or make room."
        ),
    ),
    ErrorCode(
        "K503",
        "The background is too large",
        "A compiled background numbers its terms, and the triples of each predicate, with 32 bits.",
        "Divide it between pipelines.",
        ShownMessage("K503 the background is too large: 4,294,967,296 terms, where a compiled store can number 4,294,967,295"),
    ),
)
