"""Codes of EP-SPARQL (E)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import ErrorCode, GoldenFile, InFiles

_PREFIXES = "PREFIX : <http://example.org/>\n"
_CONFIGURATION = (
    "c.yaml",
    "name: prices\nrules: [q.epsparql]\nknowledge: { graphs: [kb.ttl] }\n"
    "input: [{ name: trades, format: ndjson, path: trades.ndjson }]\noutput: [{ format: ndjson, path: out.ndjson }]\n",
)
_BACKGROUND = ("kb.ttl", "@prefix : <http://example.org/> .\n:acme :listedIn :vienna .\n")


def _entry(code: str, title: str, meaning: str, remedy: str) -> ErrorCode:
    return ErrorCode(code, title, meaning, remedy, GoldenFile(f"{code}.epsparql"))


def _of_units(units: str) -> InFiles:
    return InFiles((("q.epsparql", f"{_PREFIXES}{units}\n"),))


def _with_background(units: str) -> InFiles:
    return InFiles((_CONFIGURATION, ("q.epsparql", f"{_PREFIXES}{units}\n"), _BACKGROUND, ("trades.ndjson", "")))


TEMPORAL: tuple[ErrorCode, ...] = (
    _entry("E101", "Not EP-SPARQL", "The text does not follow the grammar of `.epsparql` files here.", "Write what is expected."),
    _entry("E102", "No label", "A unit has a label: a word of letters, digits and `_` that begins with no digit.", "Write a label."),
    _entry("E103", "No unit in the file", "A file holds one unit at least.", "Write REGISTER QUERY …, or remove the file."),
    _entry(
        "E104",
        "A form of the other kind",
        "A QUERY has SELECT, a STREAM has CONSTRUCT; ASK and DESCRIBE are in neither.",
        "Write QUERY for events with attributes, STREAM for graphs.",
    ),
    _entry(
        "E105",
        "Modifiers or aggregates over a stream",
        "GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET and aggregates work on a set of solutions, which a stream never has. A QUERY of one "
        "plain group has such a set at each instant, and may use them; so may sub-SELECTs.",
        "Keep a sum by a STREAM that reads itself, or aggregate by a dotr rule over the label.",
    ),
    _entry("E106", "An unknown policy", "POLICY is UNRESTRICTED, CHRONOLOGICAL or RECENT.", "Write one of them."),
    _entry(
        "E107",
        "Parts in the wrong order",
        "A chain ends with BINDs and FILTERs, then WITHIN; a unit ends with POLICY.",
        "Write the parts in this order.",
    ),
    _entry(
        "E108",
        "No length of time",
        "WITHIN has a length of time with a unit, without months, 0 or more.",
        'Write it like 10 s, 5 min, PT1H or "P1D"^^xsd:duration.',
    ),
    _entry(
        "E109",
        "SPARQL beside temporal operators",
        "A group with temporal operators contains only operands, operators, FILTER, BIND and WITHIN. Triples, OPTIONAL, MINUS, VALUES and "
        "sub-SELECTs are evaluated at one instant, and between two groups side by side the operator is missing.",
        "Put the part of one instant into braces of its own; join two groups by AND.",
    ),
    _entry(
        "E110",
        "Temporal operators inside SPARQL",
        "OPTIONAL, MINUS, EXISTS and sub-SELECTs are evaluated at one instant.",
        "Write OPTIONALSEQ or EQUALSOPTIONAL; test absence by !BOUND.",
    ),
    _entry(
        "E111",
        "SEQOPTIONAL",
        "A later optional part would change events that have been output already.",
        "Write OPTIONALSEQ, whose optional part comes first.",
    ),
    _entry(
        "E112",
        "A function without an interval",
        "getDURATION(), getSTARTTIME() and getENDTIME() refer to the solution of a chain, or of the basic group around them.",
        "Use it in a FILTER or BIND of the chain, or in the SELECT line.",
    ),
    _entry(
        "E113",
        "EXISTS without a graph",
        "A solution over several instants has no single graph for EXISTS.",
        "Write EXISTS in the braces of a plain group, or OPTIONALSEQ with !BOUND.",
    ),
    _entry("E114", "A dotr_id name in CONSTRUCT", "These names are for rules only.", "Write [] or _:b: it is new for each solution."),
    _entry(
        "E201",
        "An operator without a bound",
        "State must be bounded: SEQ, AND and OPTIONALSEQ need the greatest distance of their solutions. A limit of getDURATION() is a "
        "bound if it is a literal, in a conjunct of a FILTER that every result must meet; for OPTIONALSEQ in the braces of the optional "
        "part.",
        "Write WITHIN at the end of the chain, or such a FILTER.",
    ),
    _entry("E202", "An unsatisfiable bound", "No two solutions can be that near to each other.", "Write a longer bound."),
    _entry(
        "E203",
        "An unbound variable",
        "A variable of the SELECT line or of the template has a value in no solution.",
        "Bind it in WHERE, or correct its name.",
    ),
    _entry("E204", "A variable that has a value", "BIND and AS need a new variable.", "Give it another name, or compare in a FILTER."),
    ErrorCode(
        "E205",
        "EVENT of an unknown label",
        "EVENT reads events that a rule or a unit makes, or the facts of a shared query.",
        "Correct the label, or name the file that makes its events.",
        _of_units("REGISTER QUERY Q AS SELECT ?c WHERE EVENT Fall(?c)"),
    ),
    ErrorCode(
        "E206",
        "EVENT of an attribute that no event has",
        "The attributes of events are the projected variables of a QUERY, those of a STREAM's template, or those of `with` of a rule.",
        "Correct the name of the attribute; for another variable write ?attribute AS ?variable.",
        _of_units(
            "REGISTER QUERY Fall AS SELECT ?c WHERE { ?c :price ?p } SEQ { ?c :price ?q } FILTER(?q < ?p) WITHIN 10 s\n"
            "REGISTER QUERY Q AS SELECT ?x WHERE EVENT Fall(?company AS ?x)"
        ),
    ),
    _entry(
        "E207", "One variable for two attributes", "The attributes of an EVENT have variables of their own.", "Compare them in a FILTER."
    ),
    _entry(
        "E208",
        "A time matched in its own group",
        "A value of the interval is determined by the match of the group's triples, so they cannot use it.",
        "Write the BIND last, and compare in a FILTER.",
    ),
    ErrorCode(
        "E401",
        "Warning: a plain group of the background alone",
        "The background holds at every instant, so the group has the same solutions at every instant.",
        "Put its triples into a group that reads the stream.",
        _with_background(
            "REGISTER QUERY Q AS SELECT ?c WHERE { ?c :listedIn ?x } SEQ { ?c :price ?p } WITHIN 10 s",
        ),
    ),
    ErrorCode(
        "E402",
        "Warning: a group that reads no constructed graph",
        "Only basic groups are matched in the graphs of a STREAM: triple patterns, FILTERs without EXISTS, BIND and VALUES. The triples of "
        "this group could be matched there, but it has other parts.",
        "Put the triples into a basic group, or read the events of the STREAM by EVENT.",
        _of_units(
            "REGISTER STREAM Up AS CONSTRUCT { ?c :rose ?q } WHERE { ?c :price ?p } SEQ { ?c :price ?q } FILTER(?q > ?p) WITHIN 9 s\n"
            "REGISTER QUERY Q AS SELECT ?c WHERE { ?c :rose ?q OPTIONAL { ?c :name ?n } }"
        ),
    ),
    _entry(
        "E403",
        "Warning: operands without a common variable",
        "Every solution of one side combines with every solution of the other that the times allow.",
        "Name a variable in both.",
    ),
    ErrorCode(
        "E404",
        "Warning: a unit with one partition",
        "No variable is bound in every operand of every operator, so the unit has one partition.",
        "Name a variable in every operand; with DISTINCT, project it.",
        _of_units("REGISTER QUERY Q AS SELECT ?c WHERE { ?c :price ?p } SEQ { ?c :price ?q } SEQ { ?d :price ?r } WITHIN 10 s"),
    ),
    _entry(
        "E405",
        "Warning: a POLICY without an operator",
        "A policy limits how often an operator uses a solution, and this unit has no operator.",
        "Leave it out.",
    ),
    _entry(
        "E406",
        "Warning: a suspiciously long bound",
        "A unit stores all solutions within the bound.",
        "Correct the unit of time, or keep it.",
    ),
    _entry(
        "E407",
        "Warning: a difference of times as a number",
        "The difference of two times is a number where times are integers, and a duration where they are date-times. A duration is not "
        "compared with a number, and no number is added to a date-time: the condition is an error. So it is with "
        "an attribute of an event that is assigned such a difference. `getDURATION()` is a duration in "
        "either form. Where the configuration has `time.unit`, "
        "times are integers, and there is no warning of them.",
        "Compare `getDURATION()` with a duration, or the seconds: `<urn:dotr:function:seconds>(?to - ?from) > 10`.",
    ),
)
