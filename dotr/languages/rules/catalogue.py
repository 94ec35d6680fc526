"""Codes of rule files (D)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import ErrorCode, GoldenFile, InFiles


def _rule(code: str, title: str, meaning: str, remedy: str) -> ErrorCode:
    return ErrorCode(code, title, meaning, remedy, GoldenFile(f"{code}.dotr"))


_STATIC = """\
PREFIX : <http://example.org/>
rule Fire
define Fire = [ [] :at ?room ]
from Room = [ SELECT ?room WHERE { ?room a :Room } ]
with Fire.?room = Room.?room
"""
_HOT = "REGISTER RSTREAM Hot AS SELECT ?x FROM NAMED WINDOW <w> ON <in> [RANGE 10s] { WINDOW <w> { ?x <http://example.org/v> ?v } }\n"
_ROUND = (
    "REGISTER RSTREAM One AS CONSTRUCT { ?x ?p ?y } FROM WINDOW ON <Two> [NOW] { ?x ?p ?y }\n"
    "REGISTER RSTREAM Two AS CONSTRUCT { ?x ?p ?y } FROM WINDOW ON <One> [NOW] { ?x ?p ?y }\n"
)
_TICKS = """\
PREFIX : <http://example.org/>
rule Silent
define Silent = [ [] :at ?room ]
from every 10 min for [ SELECT ?room WHERE { ?room a :Room } ] as Tick
with Silent.?room = Tick.?room
"""
_ONE_CORE = """\
PREFIX : <http://example.org/>
query Temp = [ SELECT ?room ?v WHERE { ?t :room ?room ; :val ?v } ]
rule Hotter
define Hotter = [ [] :at ?room ]
from Temp and last Temp as Before [ FILTER(?v < Temp.?v) ] within 5 min from Temp
with Hotter.?room = Temp.?room
consuming Before
"""
_EVERYWHERE = """\
PREFIX : <http://example.org/>
query Temp = [ SELECT ?room ?v WHERE { ?t :room ?room ; :val ?v } ]
rule Hotter
define Hotter = [ [] :at ?room ]
from Temp and last Temp as Before [ FILTER(?v < Temp.?v) ] within 5 min from Temp
with Hotter.?room = Temp.?room
"""
_TYPED = """\
PREFIX : <http://example.org/>
rule Fast
define Fast = [ [] :of ?car ]
from Speed = [ SELECT ?car WHERE { ?car :speed ?v FILTER(?v > 20) } ]
with Fast.?car = Speed.?car
"""
_CSV = """\
name: example
prefixes: { "": "http://example.org/" }
rules: [rules.dotr]
input:
  - name: cars
    format: csv
    path: cars.csv
    time: at
    map: ':car{car} :speed "{speed}" .'
output: [{ format: ndjson, path: out.ndjson }]
"""
_CONFIG = """\
name: example
knowledge: { graphs: [rooms.ttl] }
rules: [rules.dotr]
input: [{ name: a, format: ndjson, path: a.ndjson }]
output: [{ format: ndjson, path: out.ndjson }]
"""

RULES: tuple[ErrorCode, ...] = (
    _rule(
        "D101",
        "Syntax error",
        "The text does not follow the grammar. The message names the tokens expected at this place; parsing continues with the next "
        "statement, so that each broken statement of a file is reported.",
        "Write one of the expected tokens. A word of the language (`rule`, `last`, `every`, …) cannot be a label.",
    ),
    _rule(
        "D102", "A bracket is not closed", "A bracket has no partner, or another kind of bracket closes it.", "Add or correct the bracket."
    ),
    _rule(
        "D103",
        "A string is not closed",
        "A string between single quotes must end on its line.",
        "Close it, or write it between three quotes.",
    ),
    _rule("D201", "Two rules of one name", "The name of a rule is unique in all files together.", "Rename one."),
    _rule("D202", "Two shared queries of one label", "The label of a `query` is unique in all files together.", "Rename one, or keep one."),
    _rule(
        "D203",
        "A label is not bound",
        "`from`, `between`, `consuming`, `L.?v` or `time(L)` names a label that the rule does not bind, or binds only later: clauses "
        "bind in the order written, and nothing is bound before the anchor.",
        "Correct the name, or move the clause.",
    ),
    _rule(
        "D204",
        "Two events of a rule have one label",
        "Each event of a rule needs a label of its own.",
        "Give one a label: `Temp as Before`.",
    ),
    _rule(
        "D205",
        "There is no such query or event",
        "A label that is not followed by `= [ … ]` must be that of a shared query, or of an event that a rule defines.",
        "Correct the name, or define it. `dotr check` of a configuration reads all rule files together.",
    ),
    _rule("D206", "One label for a query and an event", "References to the label would be ambiguous.", "Rename one."),
    _rule(
        "D207",
        "The event has no such attribute",
        "The attributes of a fact are the variables that its query projects; those of a composite event are the `with` variables of the "
        "rules that define it.",
        "Add the variable to the SELECT line, or to `with`; or correct the name.",
    ),
    _rule(
        "D208",
        "A plain variable in `if` or `with`",
        "After `if` and `with` a variable without a label must be an aggregate of the rule.",
        "Write `L.?v`.",
    ),
    _rule(
        "D209",
        "The template has a variable that `with` does not bind",
        "Every variable of `define` gets its value from `with`.",
        "Add the assignment.",
    ),
    _rule("D210", "Assigned twice", "`with` assigns a variable once.", "Keep one."),
    _rule(
        "D211", "An assignment to another label", "`with` assigns the attributes of the event that the rule defines.", "Write its label."
    ),
    _rule(
        "D212",
        "Not one event",
        "A negated event does not exist, and an aggregate has many events: `L.?v`, `time(L)` and `from L` need exactly one.",
        "Use the aggregate's variable, or another label.",
    ),
    _rule("D213", "The aggregate is over something else", "`F(L.?v) of E …` needs L and E to be one label.", "Write one label."),
    _rule("D214", "Two aggregates of one name", "The variable of an aggregate is unique in its rule.", "Rename one."),
    _rule("D215", "A prefix is declared twice", "In one file a prefix has one IRI.", "Remove one."),
    _rule("D216", "A prefix has a relative IRI", "A rule file has no base IRI.", "Write the IRI in full."),
    _rule(
        "D217",
        "An assignment is never used",
        "Neither the template nor another rule or unit reads this attribute. The warning is given for rule files by themselves, and where "
        "no output shows attributes, as ndjson, CSV and Parquet do.",
        "Use it, or remove it.",
    ),
    _rule(
        "D218",
        "A label hides another",
        "The rule's own query has the label of a shared query or of an event; inside the rule the label refers to its own query.",
        "Rename one.",
    ),
    _rule(
        "D219",
        "A variable is never bound",
        "No triple of the query gives this variable a value. A comparison with it is an error, hence never true.",
        "Correct the name, or add a triple.",
    ),
    _rule(
        "D220",
        "No rule reads the query",
        "No rule reads this shared query, so it changes no output; a rule test can still expect its facts.",
        "Remove it, or use it in a rule.",
    ),
    _rule(
        "D221",
        "An aggregate is never used",
        "Neither `if` nor `with` reads the variable, and its events are not consumed: the clause has no effect.",
        "Use the aggregate, or remove the clause.",
    ),
    ErrorCode(
        "D222",
        "A label of two units",
        "Labels are one space: a query, the event or the name of a rule, and a shared query never share one, in whatever language they are "
        "written. Rules may define one event together.",
        "Rename one of them.",
        InFiles((("example.rspql", _HOT + _HOT),)),
    ),
    ErrorCode(
        "D223",
        "A label that no rule can read",
        "The label of a unit of another language is a word of the rule language.",
        "Choose another label, if a rule is to read it. It is a warning.",
        InFiles((("example.rspql", _HOT.replace("Hot", "First")),)),
    ),
    ErrorCode(
        "D224",
        "An unknown stream",
        "The name after ON is looked up among the names of CONSTRUCT queries, the labels of units whose events have graphs, the streams "
        "that inputs feed (`stream:`), and the names of inputs.",
        "Name one of them.",
        InFiles(
            (
                (
                    "example.yaml",
                    "name: example\nrules: [queries.rspql]\ninput: [{ name: sensors, format: ndjson, path: a.ndjson }]\n"
                    "output: [{ format: ndjson, path: out.ndjson }]\n",
                ),
                ("queries.rspql", _HOT.replace("<in>", "<sensor>")),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "D225",
        "Events without graphs are no stream",
        "A window reads graphs: those of a rule's events, or of a CONSTRUCT. The events of SELECT and ASK have attributes alone.",
        "Write CONSTRUCT, or let a rule read the events by label.",
        InFiles((("example.rspql", _HOT + "REGISTER RSTREAM More AS SELECT ?x FROM WINDOW ON <Hot> [NOW] { ?x ?p ?y }\n"),)),
    ),
    _rule(
        "D226",
        "Once without a duration",
        "`once` holds a firing back for a while after one with equal keys, and the while is part of it.",
        "For once a moment write `once in 0 per ?host`, for an hour `once in 1 h per ?host`. *Never again* is a negation of the rule's own "
        "event: `and not Page as Earlier [ FILTER(?host = Trouble.?host) ] before Trouble`.",
    ),
    _rule(
        "D227",
        "An unknown key of once",
        "A key of `once` is an attribute of the rule's event: a variable that `with` assigns. Each is named once.",
        "Correct the name, or assign it: `with Page.?host = Trouble.?host`.",
    ),
    _rule(
        "D228",
        "A constant that is no delay",
        "A delay by a value is a number of seconds, an xsd:dayTimeDuration, or an xsd:duration without years and months, from 0 to the "
        "bound behind `at most`. Another value is no anchor. Of data this is an error of the rule at that anchor, which is counted; of a "
        "constant it is one at every anchor.",
        "Correct the value or the bound. A constant delay has no `at most`: `delayed by 5 min`.",
    ),
    _rule(
        "D230",
        "`before` where older events may be needed",
        "`before R` is a window of any length, (0, ∞), and keeps the newest event of each key alone. That is enough for `last` without a "
        "number and for `not`, where R is the anchor, the event is not consumed, every constraint is an equality `?v = L.?w` with an "
        "attribute of a label bound before or a condition on the event alone, and, for `last` without `also`, no clause above (nor a "
        "delayed anchor) reads the same label.",
        "Write a window, `within 1 h from Smoke`, or `and also last …` where it may be the event of another clause.",
    ),
    _rule(
        "D231",
        "The keyword `before` in place of a label",
        "Keywords may be written in any case of letters, so `last Temp Before Smoke` means `last Temp before Smoke`: the latest at any "
        "earlier time. A label stands behind `as`.",
        "For a label: `last Temp as Before within 1 h from Smoke`. For the keyword: `before`. It is a warning.",
    ),
    _rule(
        "D235",
        "elapsed of something else than two labels",
        "`elapsed(A, B)` is the number of seconds from the event A to the event B, of two labels that the rule binds.",
        "Name two labels; of two values, subtract one from the other: `<urn:dotr:function:seconds>(?to - ?from)`.",
    ),
    _rule(
        "D236",
        "The fraction of a quantile is no decimal from 0 to 1",
        "`quantile(0.95, E.?v)` has at its first place a decimal from 0 to 1, without sign or exponent. It is written in the rule: no "
        "variable, and no text.",
        "Write the fraction: 0.95 for the 95th percentile.",
    ),
    _rule(
        "D240",
        "Internal in one definition, and not in another",
        "An internal event is in no output that does not name it. All rules that define an event say `define internal`, or none does.",
        "Write `internal` in all definitions of the event, or in none.",
    ),
    _rule(
        "D301",
        "No window",
        "Every clause needs a window: a range of distances, and the event from which they are measured.",
        "Add `within 5 min from …`.",
    ),
    _rule(
        "D302",
        "Unknown unit",
        "Units are us, ms, s, min, h and d, and their names. `m` is refused, since it could mean months.",
        "Write one of them.",
    ),
    _rule(
        "D303",
        "An empty interval",
        "No distance lies in the interval, so no event ever matches.",
        "Write the nearer bound first; the same instant is `[0, 0]`.",
    ),
    _rule(
        "D304",
        "Not a duration",
        "The text is not a length of time: not an xsd:duration, or one of years and months, or negative, or finer than a microsecond.",
        'Write `5 min` or `"PT5M"^^xsd:duration`.',
    ),
    _rule("D305", "Nothing is selected", "`last 0` and `first 0` select no event.", "Count from 1."),
    _rule(
        "D306", "Unknown aggregate", "Aggregates are count, sum, avg, min, max, median, quantile, variance and stddev.", "Use one of them."
    ),
    _rule("D307", "`*` in an aggregate other than count", "Only `count` accepts `*`.", "Name an attribute."),
    _rule("D308", "A negated event is consumed", "A match holds no negated event.", "Remove it."),
    _rule(
        "D309",
        "EXISTS beside another event",
        "One condition contains both EXISTS and `M.?v`. EXISTS is evaluated at one instant, `M.?v` when events are related.",
        "Write two FILTERs.",
    ),
    _rule(
        "D310",
        "A suspiciously long window",
        "The rule stores every event that may still be in a window, for more than 30 days here; where D230 allows `before`, the newest "
        "of each key alone.",
        "Check the unit, or write `before`. It is a warning.",
    ),
    _rule("D311", "The anchor is consumed", "An anchor takes part in matches once only, so consuming it has no effect.", "Remove it."),
    _rule("D312", "A timer of no length", "`every 0` has no period, and `delayed by 0` is no delay.", "Write a length."),
    _rule(
        "D313",
        "A condition never holds",
        "The condition is a constant, conditions joined by `&&` exclude each other for all data, or the windows of the clauses exclude it: "
        "`elapsed(Off, On) > 10` where On is before Off.",
        "Remove one, or join them by `||`.",
    ),
    _rule(
        "D314",
        "A comparison is never true",
        "The two sides never have a kind of value in common: an IRI is not equal to a number, a string not to an integer, and IRIs have "
        "no order. The warning is given only where the text proves it: a subject is no literal, `STR(…)` is a string, `count` a number.",
        'Compare values of one kind: the value rather than its subject, `5` rather than `"5"`.',
    ),
    _rule(
        "D315",
        "A negation forbids its own anchor",
        "The anchor is an event of the negated label, and its own time lies in the window (which begins at distance 0, or includes the "
        "delay of the anchor). A negation considers every event, whatever its role, so the anchor itself violates it (unless a compared "
        "attribute is unbound). The same warning is given for an event that another clause has selected.",
        "Exclude the anchor: `within (0, …]`, which `within 5 min` is; for an anchor delayed by 10 min, `within [0, 10 min)`.",
    ),
    _rule(
        "D316",
        "A condition always holds",
        "`if`, or one of its conditions joined by `&&`, is a constant that is true.",
        "Remove it.",
    ),
    _rule(
        "D317",
        "An operation can only err",
        "An argument is of a kind that the function or operator never accepts: the length of an IRI, the sum of subjects. The operation is "
        "an error, which makes a condition false and leaves a variable unbound. The warning is given only where the text proves it.",
        "Convert the argument: `STR(?room)`, `xsd:decimal(?text)`; or take another attribute.",
    ),
    _rule(
        "D318",
        "An empty `between`",
        "`between A and A`: strictly between an event and itself there is no time. The negation always holds, the aggregate is empty.",
        "Name two events.",
    ),
    _rule(
        "D319",
        "A cross product",
        "Parts of the query share no variable, and no FILTER or BIND relates them: every solution of one is paired with every solution of "
        "the other. An instant with a thousand of each has a million facts, which may exceed a limit.",
        "Connect the parts, or read them by two clauses of the rule.",
    ),
    ErrorCode(
        "D320",
        "The data make a condition an error",
        "A text in quotes is no number: `'25' > 20` is an error in SPARQL, and so false, as is arithmetic with `'25'`. All sources of "
        "the attribute are known (the maps of CSV inputs, the background, the streams of a rule test), and none yields a kind of value "
        "for which the condition could be true. Inputs of Turtle graphs may yield any value: beside them the warning is given only for "
        "values of the background that are all numbers in quotes. It is not given for derived triples, nor under an entailment.",
        "Convert it in the condition, `xsd:decimal(?v) > 20`, or give it a type at its source: in a map, `{speed}` is a number where "
        'the cell is one, and `"{speed}"^^xsd:decimal` is always typed as one.',
        InFiles((("example.yaml", _CSV), ("rules.dotr", _TYPED), ("cars.csv", "at,car,speed\n1,7,25\n"))),
    ),
    _rule(
        "D321",
        "A clause without a connection to the rule",
        "No constraint and no equality of `if` relates the clause to another event, so it matches any event in the window: a temperature "
        "of any room with the smoke of this one. The warning is given where both have an attribute that could be equal: of one name, or "
        "with objects of one predicate. It is not given for attributes that a rule compares by `<` or calculates with, nor for those that "
        "the clause compares with a constant. D502 and D510 are left out where this warning is given.",
        "Add the equality, such as `FILTER(?room = Smoke.?room)`. If every event is intended, write above the rule: "
        "`# dotr: allow D321 (smoke anywhere closes the house)`.",
    ),
    _rule(
        "D322",
        "Two anchors of one moment both fire",
        "The clause excludes earlier events, in a window that begins at `(0`, so that the rule fires once. Two anchors of one moment do "
        "not see each other, nor what the other makes: both fire. The warning is not given where the anchors of a moment certainly differ "
        "in an attribute that the clause equates (a query that is DISTINCT or grouped, the event of a rule with `once`), for ticks without "
        "`for`, nor for the rule's own event where another rule defines it, too.",
        "Add `once in 0 per ?host`, or write `once in 5 min per ?host` in place of the clause.",
    ),
    _rule(
        "D324",
        "Two clauses that cannot choose one event",
        "An event has one role in a match. So where two clauses with `last` (or `first`) could choose the same event, the second one has "
        "the event before it (after it): of a value that stood for long, an older one. The warning is not given where their windows, "
        "conditions or equalities exclude one event.",
        "Write `and also last …` where both may have the same event. If they may not, write above the rule: "
        "`# dotr: allow D324 (the reason)`.",
    ),
    _rule(
        "D325",
        "A window counted from an event of any time",
        "`before` chooses an event of any earlier time, so a window that is counted from it can lie anywhere in the past, and every event "
        "that the clause reads is kept for ever.",
        "Count the window from the anchor, or choose the event by `within` and a length. It is a warning.",
    ),
    _rule(
        "D326",
        "A difference of times as a number",
        "`time(B) - time(A)` is a number where times are integers, and a duration where they are date-times. A duration is not compared "
        "with a number, and has no sum or average: the condition is an error, and the rule is silent. So a rule passes a test with "
        "integers, and fails on a stream with date-times. An attribute that a rule or another unit assigns such a difference is one, too. "
        "`time(A) + 10` is an error of date-times as well. `HOURS(…)` of a difference is an error in either form, and so is arithmetic "
        "of numbers with `getDURATION()` of EP-SPARQL, a duration. As a delay a difference of integer times counts as seconds, whatever "
        "the unit of times. Where the configuration has `time.unit`, times are integers: warnings about date-times are left out, until "
        "`check --data`, a test or the start of a run meets date-times.",
        "Write `elapsed(A, B)`, the seconds from A to B in either form. It is a warning.",
    ),
    _rule(
        "D327",
        "The windows make a comparison of times always hold",
        "The windows of the clauses say how far apart two events are, so the comparison of `elapsed(A, B)`, or of the sign of a "
        "difference of their times, holds for all that they admit. Where it never holds, D313 says so.",
        "Exchange the labels if the other order is meant; else leave the comparison out. It is a warning.",
    ),
    ErrorCode(
        "D331",
        "An internal event that nothing reads",
        "An internal event is for other rules and units. None reads this one, and no output names it in `events`.",
        "Leave `internal` out, let a rule read the event, or name it in the `events` of an output. It is a warning.",
        InFiles((("example.yaml", _CONFIG), ("rules.dotr", _STATIC.replace("define Fire", "define internal Fire")), ("a.ndjson", ""))),
    ),
    _rule(
        "D367",
        "No such time zone",
        '`every day in "ZONE"` names a zone that Python\'s `zoneinfo` does not have on this machine.',
        "Write a name as in Europe/Berlin or America/New_York, or leave `in` out: ticks are then in the `time_zone` of the configuration.",
    ),
    _rule(
        "D368",
        "No such time of day",
        "`every day at HH:MM` has a time of day from 00:00 to 23:59; `every hour` has none.",
        "Write it with two digits each, as in 06:30.",
    ),
    _rule(
        "D401",
        "A cycle at one instant",
        "These rules need each other's events of the same instant, so no order of evaluation exists.",
        "Let one read only the past: `within (0, …] from` its anchor.",
    ),
    _rule(
        "D402",
        "An event needs itself at one instant",
        "A rule may depend on its own event only in the past.",
        "Choose it by a clause, `within (0, …]` from the anchor, or let the anchor be delayed.",
    ),
    _rule(
        "D403",
        "An event that can never occur first",
        "Every rule that defines the event needs an earlier one, directly or through other events. So there is no first one, and no such "
        "rule ever fires.",
        "Let one rule define the event without reading it, for example by `and not` where there is none yet.",
    ),
    ErrorCode(
        "D404",
        "A cycle that holds a continuous query",
        "A continuous query is in no cycle at all, not even through the past: what it reads would depend on what it makes.",
        "Let one of the units on the way read something else.",
        InFiles((("example.rspql", _ROUND),)),
    ),
    ErrorCode(
        "D501",
        "The query has answers in the background alone",
        "The query has answers that need no triple of the stream: each is a fact at every instant.",
        "Add a pattern that only the stream can match; for periodic events see `every … for`.",
        InFiles(
            (
                ("example.yaml", _CONFIG),
                ("rules.dotr", _STATIC),
                ("rooms.ttl", "<http://example.org/hall> a <http://example.org/Room> .\n"),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "D502",
        "The rule runs on one core",
        "Its events are in one partition, for one of three reasons. It consumes events, and no attribute of the anchor is equated with one "
        "of each consumed label, so consumption needs one common state. Or it reads its own events, and the cycle of rules has no common "
        "key. Or its ticks have no attribute, and no clause has a key. Every other rule is partitioned over the cores, some in several "
        "stages (`dotr explain` shows them).",
        "Add an equality such as `?room = Smoke.?room` if it is intended. Otherwise ignore the warning: the output is the same.",
        InFiles(
            (("example.yaml", _CONFIG.replace("knowledge: { graphs: [rooms.ttl] }\n", "")), ("rules.dotr", _ONE_CORE), ("a.ndjson", ""))
        ),
    ),
    ErrorCode(
        "D503",
        "A timer never ticks",
        "`every … for [ … ]` gives a tick for each answer over the background, and the background has none. Triples of the "
        "stream give no answer.",
        "Name the graph that holds the answers under `knowledge`, or correct the query.",
        InFiles(
            (
                ("example.yaml", _CONFIG),
                ("rules.dotr", _TICKS),
                ("rooms.ttl", "<http://example.org/hall> a <http://example.org/Hall> .\n"),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "D504",
        "The query has too many answers in the background",
        "Answers over the background alone are computed before the stream begins and belong to every instant, so `limits: rows` bounds "
        "their number as at an instant. Their computation may hold ten times as many solutions, and read fifty times as many triples "
        "and solutions as `probes`.",
        "Add a pattern that only the stream can match, or connect unrelated patterns. Raise `limits` if so many are intended.",
        InFiles(
            (
                ("example.yaml", _CONFIG + "limits: { rows: 1 }\n"),
                ("rules.dotr", _STATIC),
                ("rooms.ttl", "".join(f"<http://example.org/r{n}> a <http://example.org/Room> .\n" for n in range(2))),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "D510",
        "Every core receives every event of a clause",
        "No equality relates the clause to another event, so on Spark its events are sent to every core, which searches them for its "
        "own share of the anchors. The clause's query has neither FILTER nor VALUES nor a constant subject or object, so every core stores "
        "all of its events for the length of the window. More cores divide the search, but not this input.",
        "Restrict the query: `FILTER (?wind >= 25)`, `?station a :Mast`. Or add the intended equality. The output is "
        "the same in any case. It is a warning, and is not given together with D321.",
        InFiles(
            (("example.yaml", _CONFIG.replace("knowledge: { graphs: [rooms.ttl] }\n", "")), ("rules.dotr", _EVERYWHERE), ("a.ndjson", ""))
        ),
    ),
)
