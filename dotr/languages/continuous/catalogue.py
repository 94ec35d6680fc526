"""Codes of continuous queries (W)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import ErrorCode, GoldenFile, InFiles

_CONFIGURATION = (
    "c.yaml",
    "name: rooms\nrules: [q.rspql]\nknowledge: { graphs: [kb.ttl] }\n"
    "input: [{ name: doors, format: ndjson, path: doors.ndjson }]\noutput: [{ format: ndjson, path: out.ndjson }]\n",
)
_BACKGROUND = ("kb.ttl", "@prefix : <http://example.org/> .\n:hall :onFloor 0 .\n")


def _of_query(query: str) -> InFiles:
    text = f"PREFIX : <http://example.org/>\nREGISTER RSTREAM <Seen> AS SELECT {query}\n"
    return InFiles((_CONFIGURATION, ("q.rspql", text), _BACKGROUND, ("doors.ndjson", "")))


def _entry(code: str, title: str, meaning: str, remedy: str) -> ErrorCode:
    return ErrorCode(code, title, meaning, remedy, GoldenFile(f"{code}.rspql"))


WINDOWS: tuple[ErrorCode, ...] = (
    _entry("W101", "Not a continuous query", "The text does not follow the grammar of `.rspql` files here.", "Write what is expected."),
    _entry(
        "W102",
        "The name gives no label",
        "The events of a query have a label: the part of its name after the last `#`, `/` or `:`. It is a word of letters, digits and `_`, "
        "and does not begin with a digit.",
        "Give the query another name.",
    ),
    _entry("W103", "Two relations to stream", "A query has one of RSTREAM, ISTREAM and DSTREAM, once.", "Leave one of them out."),
    _entry(
        "W105",
        "An unbound variable of the template",
        "No solution of WHERE has a value of the variable, so its triples would always be dropped.",
        "Bind it in WHERE, or correct its name.",
    ),
    _entry(
        "W201",
        "A query without a window",
        "A continuous query is evaluated when a window reports; without a window it would never be evaluated.",
        "Add FROM NAMED WINDOW.",
    ),
    _entry("W202", "An unknown window", "WINDOW and EVENT name a window of the same query.", "Declare it, or correct the name."),
    _entry("W203", "Two windows of one name", "Every named window of a query has a name of its own.", "Rename one of them."),
    _entry(
        "W204", "A WINDOW inside a WINDOW", "A WINDOW block is evaluated over one window's content alone.", "Write the blocks side by side."
    ),
    _entry(
        "W205",
        "MATCH in another group",
        "MATCH is written directly in the WHERE group, not in OPTIONAL, UNION, MINUS, EXISTS, a WINDOW block, a nested group or a "
        "sub-query.",
        "Move it there; it is joined with the other patterns by common variables.",
    ),
    _entry(
        "W206",
        "No triple pattern, or another pattern, in EVENT",
        "An EVENT holds triple patterns, at least one, and FILTERs.",
        "Write triple patterns; use WINDOW blocks beside MATCH for the rest.",
    ),
    _entry(
        "W207",
        "A variable of another EVENT in a FILTER",
        "A FILTER of an EVENT is evaluated within one element, over the variables of its own triples.",
        "Write the FILTER beside MATCH.",
    ),
    _entry(
        "W208",
        "AT a variable of the pattern",
        "AT binds its variable to the time of the element, so it cannot also be a variable of the event's triples.",
        "Give AT a variable of its own, and compare the two in a FILTER beside MATCH.",
    ),
    _entry(
        "W209",
        "FROM a graph",
        "A query reads windows and the background, no other graphs.",
        "Load the graph as `knowledge.graphs`, and leave the FROM out.",
    ),
    _entry(
        "W210",
        "Syntax of another engine",
        "STREAM inside WHERE is CQELS-QL's, FROM NAMED STREAM is SPARQLstream's.",
        "Write FROM NAMED WINDOW and WINDOW blocks.",
    ),
    _entry("W211", "timestamp()", "C-SPARQL's function of the time of a triple.", "Write EVENT … AT ?t in MATCH."),
    _entry(
        "W301",
        "No length of time",
        "Lengths are above 0 and have no months or years, which have no fixed length.",
        "Write one like 10s, 5 min, 1 h 30 min or PT5M.",
    ),
    _entry("W302", "An empty window", "FROM NOW-a TO NOW-b needs a longer a than b.", "Write the bound that lies further back first."),
    _entry(
        "W303",
        "STREAM WITHIN too short, or without a window of time",
        "At this level the stream of the given duration is a premise too. The duration must be at least the length of the window.",
        "Write a longer duration, or ENTAILMENT WINDOW.",
    ),
    _entry(
        "W304",
        "STARTING AT for ELEMENTS, TRIPLES or NOW",
        "Only windows of time have a start; these count elements, or hold a single time.",
        "Leave it out.",
    ),
    _entry("W305", "An option or a policy twice", "Each option, and each policy of a REPORT, is written once.", "Leave one of them out."),
    _entry(
        "W306",
        "NON-EMPTY CONTENT alone",
        "It does not determine the times of reports.",
        "Add ON WINDOW CLOSE AND, ON CONTENT CHANGE AND, or PERIODIC.",
    ),
    _entry("W307", "WINDOW CLOSE for NOW", "NOW is the content of each time, and has no close.", "Write ON CONTENT CHANGE."),
    _entry(
        "W308",
        "REPORT beside COMPUTED EVERY",
        "COMPUTED EVERY d is PERIODIC d AND NON-EMPTY CONTENT for every window of the query.",
        "Write one of the two.",
    ),
    _entry("W309", "No whole number above 0", "ELEMENTS, TRIPLES, their STEP and LIMIT are numbers above 0.", "Write 1, 2, 3 …"),
    _entry(
        "W310",
        "No time",
        "STARTING AT has an integer in the configuration's `time.unit`, or a date-time, plain or as a typed literal.",
        "Write STARTING AT 0, or STARTING AT 2024-01-01T00:00:00Z.",
    ),
    _entry(
        "W346",
        "No such time zone",
        '`RESTARTING EVERY DAY IN "ZONE"` names a zone that Python\'s `zoneinfo` does not have on this machine.',
        "Write a name as in Europe/Berlin or America/New_York, or leave IN out: restarts are then in the `time_zone` of the configuration.",
    ),
    _entry(
        "W347",
        "No such time of day",
        "`RESTARTING EVERY DAY AT HH:MM` has a time of day from 00:00 to 23:59; `EVERY HOUR` has none.",
        "Write it with two digits each, as in 06:30.",
    ),
    _entry(
        "W348",
        "PERIODIC with WINDOW CLOSE for a window that restarts by calendar",
        "A window with `RESTARTING EVERY DAY` closes when the clock of its zone says so, which is at no multiple of a length.",
        "Write STEP for more closes, or PERIODIC without ON WINDOW CLOSE.",
    ),
    _entry("W401", "Warning: a window that no pattern reads", "The window costs state, and may report.", "Read it, or leave it out."),
    _entry(
        "W402",
        "Warning: RSTREAM reports empty windows",
        "ON WINDOW CLOSE without NON-EMPTY CONTENT reports at every close, also of an empty window.",
        "Add AND NON-EMPTY CONTENT, unless the answers over an empty window are intended, such as a COUNT of 0.",
    ),
    _entry(
        "W403",
        "Warning: DSTREAM with NON-EMPTY CONTENT",
        "DSTREAM returns answers that have ended. The last ones end when the window is empty, and then there is no report.",
        "Leave NON-EMPTY CONTENT out.",
    ),
    _entry(
        "W404",
        "Warning: many reports for one element",
        "Each element is in the window at more than 10,000 reports.",
        "Correct the unit, or write a longer STEP.",
    ),
    ErrorCode(
        "W405",
        "Warning: a predicate of the background in a WINDOW block",
        "A WINDOW block is evaluated over the triples of its window and the conclusions from them, without the triples of the background. "
        "The background has triples of this predicate, and no rule derives any.",
        "Move the pattern out of the block. If the stream brings such triples too, `# dotr: allow W405 (the reason)` above the query.",
        _of_query("?who FROM NAMED WINDOW <w> ON <doors> [RANGE 10s] WHERE { WINDOW <w> { ?who :enters ?room . ?room :onFloor 0 } }"),
    ),
    ErrorCode(
        "W406",
        "Warning: the background alone answers the query",
        "The query has solutions that need no triple of the stream, so they are in every report.",
        "Add a WINDOW block, or a pattern that only the stream can match.",
        _of_query("?room FROM WINDOW ON <doors> [RANGE 10s] WHERE { ?room :onFloor ?floor }"),
    ),
    ErrorCode(
        "W407",
        "Warning: one partition",
        "The query cannot be divided by the values of a variable, and runs on one core. A query is divided by its subject if all its "
        "triple patterns have one variable as subject, in one WINDOW block at NONE or SNAPSHOT.",
        "Nothing, if one core is enough; different queries run on different cores.",
        _of_query("?who FROM NAMED WINDOW <w> ON <doors> [RANGE 10s] WHERE { WINDOW <w> { ?who :enters ?room . ?room :calls ?other } }"),
    ),
    _entry(
        "W438",
        "Warning: windows with gaps",
        "STEP is greater than RANGE, so the windows do not touch: elements between two of them are in none, and no answer sees them.",
        "Write STEP as long as RANGE, or a longer RANGE.",
    ),
)
