"""The codes of rule files."""

from __future__ import annotations

from dotr.errors.catalogue.entries import ErrorCode, GoldenFile, InFiles


def _rule(code: str, title: str, meaning: str, way_out: str) -> ErrorCode:
    return ErrorCode(code, title, meaning, way_out, GoldenFile(f"{code}.dotr"))


_STATIC = """\
PREFIX : <http://example.org/>
rule Fire
define Fire = [ [] :at ?room ]
from Room = [ SELECT ?room WHERE { ?room a :Room } ]
with Fire.?room = Room.?room
"""
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
        "Something else was expected",
        "The text does not follow the grammar. The message names what could have stood at the place reached; reading goes on with the next "
        "statement, so that each broken statement of a file is reported.",
        "Write one of the things named. A word of the language (`rule`, `last`, `every`, …) cannot be a label.",
    ),
    _rule("D102", "A bracket is not closed", "A bracket has no partner, or another kind of bracket closes it.", "Add or mend the bracket."),
    _rule(
        "D103",
        "A string is not closed",
        "A string between single quotes must end on its line.",
        "Close it, or write it between three quotes.",
    ),
    _rule("D201", "Two rules of one name", "Rules are told apart by name, in all files together.", "Rename one."),
    _rule("D202", "Two shared queries of one label", "A `query` is defined once, in all files together.", "Rename one, or keep one."),
    _rule(
        "D203",
        "A label is not bound",
        "`from`, `between`, `consuming`, `L.?v` or `time(L)` names a label that the rule does not bind, or binds only later: clauses "
        "bind in the order written, and nothing is bound before the anchor.",
        "Mend the name, or move the clause.",
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
        "A label that is not followed by `= [ … ]` must be a shared query, or the event that some rule defines.",
        "Mend the name, or define it. `dotr check` of a configuration reads all rule files together.",
    ),
    _rule("D206", "One label for a query and an event", "Nobody could say which is meant.", "Rename one."),
    _rule(
        "D207",
        "The event has no such attribute",
        "The attributes of a fact are the variables that its query projects; those of a composite event are the `with` variables of the "
        "rules that define it.",
        "Add the variable to the SELECT line, or to `with`; or mend the name.",
    ),
    _rule(
        "D208",
        "A plain variable in `if` or `with`",
        "Behind `if` and `with` a variable without a label must be an aggregate of the rule.",
        "Write `L.?v`.",
    ),
    _rule(
        "D209",
        "The template needs what `with` does not bind",
        "Every variable of `define` gets its value from `with`.",
        "Add the assignment.",
    ),
    _rule("D210", "Assigned twice", "`with` gives a variable one value.", "Keep one."),
    _rule(
        "D211", "An assignment to another label", "`with` assigns the attributes of the event that the rule defines.", "Write its label."
    ),
    _rule(
        "D212",
        "Not one event",
        "A negated event is none, and an aggregated one is many: `L.?v`, `time(L)` and `from L` need exactly one.",
        "Use the aggregate's variable, or another label.",
    ),
    _rule("D213", "The aggregate is over something else", "`F(L.?v) of E …` needs L and E to be one label.", "Write one label."),
    _rule("D214", "Two aggregates of one name", "Aggregates are told apart by their variable.", "Rename one."),
    _rule("D215", "A prefix is declared twice", "In one file a prefix has one IRI.", "Remove one."),
    _rule("D216", "A prefix has a relative IRI", "There is nothing that it could be relative to.", "Write the IRI in full."),
    _rule(
        "D217",
        "An assignment is never used",
        "Neither the template nor another rule asks for this attribute. It is written to the output all the same.",
        "Use it, or leave it out.",
    ),
    _rule(
        "D218",
        "A label hides another",
        "The rule's own query has the label of a shared query or of an event; inside the rule its own is meant.",
        "Rename one.",
    ),
    _rule(
        "D219",
        "A variable is never bound",
        "No triple of the query gives this variable a value. A comparison with it is an error, hence never true.",
        "Mend the name, or add a triple.",
    ),
    _rule(
        "D220",
        "No rule reads the query",
        "A shared query is there for rules. One that none reads changes no output; its facts can still be asked for in a rule test.",
        "Leave it out, or read it.",
    ),
    _rule(
        "D221",
        "An aggregate is never used",
        "Neither `if` nor `with` names the variable, and its events are not consumed: without the clause the rule means the same.",
        "Use it, or leave the clause out.",
    ),
    _rule("D301", "No window", "Every clause says how far it looks, from which event.", "Add `within 5 min from …`."),
    _rule(
        "D302",
        "Unknown unit",
        "Units are us, ms, s, min, h and d, and their names. `m` is refused: it could be months.",
        "Write one of them.",
    ),
    _rule(
        "D303",
        "An empty interval",
        "No distance lies in the interval, so no event ever could.",
        "Write the nearer bound first; the same instant is `[0, 0]`.",
    ),
    _rule(
        "D304",
        "No duration",
        "The text is not a length of time: not an xsd:duration, or one of years and months, or negative, or finer than a microsecond.",
        'Write `5 min` or `"PT5M"^^xsd:duration`.',
    ),
    _rule("D305", "Nothing is selected", "`last 0` and `first 0` select no event.", "Count from 1."),
    _rule("D306", "Unknown aggregate", "Aggregates are count, sum, avg, min and max.", "Use one of them."),
    _rule("D307", "An aggregate of everything", "Only `count` takes `*`.", "Name an attribute."),
    _rule("D308", "A negated event is consumed", "There is no such event in a match.", "Leave it out."),
    _rule(
        "D309",
        "EXISTS beside another event",
        "One condition holds EXISTS and `M.?v`. EXISTS is asked of one instant, the other event comes later.",
        "Write two FILTERs.",
    ),
    _rule(
        "D310",
        "A suspiciously long window",
        "The rule keeps every event that a window may still reach, here for more than 30 days.",
        "Check the unit. If it is meant, go on: it is a warning.",
    ),
    _rule("D311", "The anchor is consumed", "An anchor is looked at once. Consuming it has no effect.", "Leave it out."),
    _rule("D312", "A timer of no length", "`every 0` would be all the time, and `delayed by 0` no delay.", "Write a length."),
    _rule(
        "D313",
        "A condition never holds",
        "It is a constant, or conditions that must hold together exclude each other, whatever the data.",
        "Leave one out, or join them by `||`.",
    ),
    _rule(
        "D314",
        "A comparison is never true",
        "The two sides never have a kind of value in common: an IRI is not equal to a number, a string not to an integer, and IRIs have "
        "no order. It is said only where the text proves it: a subject is no literal, `STR(…)` is a string, `count` a number.",
        'Compare what can be compared: the value rather than its subject, `5` rather than `"5"`.',
    ),
    _rule(
        "D315",
        "A negation forbids its own anchor",
        "The anchor is an event of the very kind that must be absent, in a window that begins at distance 0, or reaches as far as the "
        "anchor is delayed. A negation looks at every event, whatever its role, so that the anchor itself stands in the way (unless an "
        "attribute that is compared is unbound). The same is said of an event that another clause has chosen.",
        "Leave the anchor out: `within (0, …]`, which `within 5 min` is; for an anchor delayed by 10 min, `within [0, 10 min)`.",
    ),
    _rule(
        "D316",
        "A condition always holds",
        "`if`, or one of the conditions that it joins by `&&`, is a constant that is true.",
        "Leave it out.",
    ),
    _rule(
        "D317",
        "An operation can only err",
        "A function, an operator or a sum is given what it never takes: the length of an IRI, the sum of subjects. Such an operation is an "
        "error, which makes a condition false and leaves a variable unbound. It is said only where the text proves it.",
        "Convert what is given: `STR(?room)`, `xsd:decimal(?text)`; or take another attribute.",
    ),
    _rule(
        "D318",
        "Nothing between",
        "`between A and A`: strictly between an event and itself there is no time. The negation forbids nothing, the aggregate is one of "
        "nothing.",
        "Name two events.",
    ),
    _rule(
        "D319",
        "A cross product",
        "Parts of the query share no variable, and no FILTER or BIND holds them against each other: every solution of the one is paired "
        "with every solution of the other. At an instant with a thousand of each these are a million facts, which may go over a limit.",
        "Connect the parts, or ask for them in two clauses of the rule.",
    ),
    ErrorCode(
        "D320",
        "The data make a condition an error",
        "A text in quotes is no number: `'25' > 20` is an error in SPARQL, and so false, as is arithmetic with `'25'`. Everything that "
        "brings the attribute is known here (the maps of CSV inputs, the background, the streams of a rule test), and none of it is of a "
        "kind that the condition could be true of. Inputs of Turtle graphs may bring anything: beside them it is said only of what stands "
        "in the background, all of it numbers in quotes. Nothing is said of what Datalog derives, nor under an entailment.",
        "Convert it in the condition, `xsd:decimal(?v) > 20`, or give it its type where it is made: in a map, `{speed}` is a number where "
        'the cell is one, and `"{speed}"^^xsd:decimal` always claims to be.',
        InFiles((("example.yaml", _CSV), ("rules.dotr", _TYPED), ("cars.csv", "at,car,speed\n1,7,25\n"))),
    ),
    _rule(
        "D401",
        "A cycle at one instant",
        "These rules need each other's events of the same instant, so none can come first.",
        "Let one look strictly into the past: `within (0, …] from` its anchor.",
    ),
    _rule(
        "D402",
        "An event needs itself at one instant",
        "A rule may depend on its own event only in the past.",
        "Choose it by a clause, `within (0, …]` from the anchor, or let the anchor be delayed.",
    ),
    _rule(
        "D403",
        "An event that can never be the first",
        "Every rule that defines the event reads one that came before, itself or by way of other events. There is none to begin with, so "
        "that no such rule ever fires.",
        "Let one rule define the event without reading it: where there is none yet, by `and not`.",
    ),
    ErrorCode(
        "D501",
        "The query holds of the background alone",
        "The query has answers that need nothing of the stream: each is a fact at every instant.",
        "Add a pattern that only the stream can match; for something done regularly see `every … for`.",
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
        "A rule is spread over cores by a value that all its events share. Here nothing ties every event to the anchor by equality.",
        "Add an equality such as `?room = Smoke.?room` where it is meant. Else leave it: the output is the same.",
        InFiles(
            (("example.yaml", _CONFIG.replace("knowledge: { graphs: [rooms.ttl] }\n", "")), ("rules.dotr", _ONE_CORE), ("a.ndjson", ""))
        ),
    ),
    ErrorCode(
        "D503",
        "A timer never ticks",
        "`every … for [ … ]` gives a tick for each answer of the background, and the background has none. What is only reported in the "
        "stream is no answer.",
        "Name the graph that holds the answers under `knowledge`, or mend the query.",
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
        "The query makes too much of the background",
        "What a query has over the background alone is found before the stream begins, and each instant has it too: so it may have no more "
        "answers there than `limits: rows` allows at an instant. On the way to them it may keep ten times as many solutions, and look "
        "at fifty times as many triples and solutions as `probes`.",
        "Add a pattern that only the stream can match, or join what is listed side by side. Raise `limits` where so much is meant.",
        InFiles(
            (
                ("example.yaml", _CONFIG + "limits: { rows: 1 }\n"),
                ("rules.dotr", _STATIC),
                ("rooms.ttl", "".join(f"<http://example.org/r{n}> a <http://example.org/Room> .\n" for n in range(2))),
                ("a.ndjson", ""),
            )
        ),
    ),
)
