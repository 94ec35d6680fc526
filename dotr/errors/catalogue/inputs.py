"""Codes of inputs and outputs (I), and of the templates of their graphs (T)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import RULE, ErrorCode, InFiles, InTemplate, ShownMessage

_CONFIG = 'name: example\nprefixes: {{ "": "{}" }}\nrules: [rules.dotr]\ninput: [{{ name: a, {} }}]\n'
_CONFIG += "output: [{{ format: ndjson, path: out.ndjson }}]\n"
_CSV = _CONFIG.format("http://example.org/", 'format: csv, path: a.csv, time: at, map: "[] :speed {speed} ."')


def _csv(header: str) -> InFiles:
    return InFiles((("example.yaml", _CSV), ("rules.dotr", RULE), ("a.csv", header)))


INPUTS: tuple[ErrorCode, ...] = (
    ErrorCode(
        "I101",
        "An input cannot be read",
        "The file cannot be opened, its compression is damaged, or it is not of its format or encoding: by its first bytes it is an "
        "archive, compressed by another program than gzip, a workbook, or in UTF-16.",
        "Correct the path or its permissions; unpack the file; write `encoding: utf-16`.",
        ShownMessage("I101 cannot read data/a.ndjson: Permission denied\nIs the input's path right, and may you read it?"),
    ),
    ErrorCode("I102", "A CSV file without a header", "The first line of a CSV file names its columns.", "Add a header.", _csv("\n")),
    ErrorCode(
        "I103",
        "A column is missing",
        "`time` or `map` names a column that the file does not have, or the first rows have more columns than the header.",
        "Correct the name, which is in quotes where it begins with `$`, write a number (`{$1}`), or say where the header is: `skip`, "
        "`comment`, `columns`.",
        _csv("at,sped\n"),
    ),
    ErrorCode(
        "I104",
        "Two columns of one name",
        "References to the column would be ambiguous.",
        "Rename one, or write numbers: `{$1}`.",
        _csv("at,speed,speed\n"),
    ),
    ErrorCode(
        "I105",
        "An invalid prefix",
        "The value of the prefix is not an IRI.",
        "Write the whole IRI.",
        InFiles(
            (
                ("example.yaml", _CONFIG.format("not an IRI", "format: ndjson, path: a.ndjson")),
                ("rules.dotr", RULE),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "I106",
        "Integer times of another unit",
        "Integers are seconds unless `time` has another unit. The first time of the input lies between 1990 and 2100 if it is read in "
        "another unit: seconds, milliseconds, microseconds or nanoseconds since 1970. The run continues with the times unchanged.",
        "Write `time: { unit: ms }`, or for an input with a map `time_format: unix_ms`: its numbers are then date-times.",
        ShownMessage(
            "I106 warning: integer times of input a look like milliseconds since 1970, and are read as seconds: 1406879400000 "
            "(a.ndjson:1)\n"
            "If they are, write time: { unit: ms }."
        ),
    ),
    ErrorCode(
        "I107",
        "The lateness loses records",
        "`dotr check --data` has read the first records of an input. With the declared lateness (default 0 s) some of them are late and "
        "would become dead letters. The message names the lateness with which none of them is late; or, where a few come days later "
        "than all others, the lateness that loses these alone: their clock was probably not set.",
        "Write that `lateness`, sort the file, or accept the loss: `report: { accept: [I107] }`. A longer lateness delays events.",
        ShownMessage(
            "fire.yaml:8:15: I107 warning: input cars: lateness: 10 min loses 7 of 79,260 rows, 6 d 22 h 20 min none\n"
            "  8 |     lateness: 10 min\n"
            "    |               ^^^^^^\n"
            "Write lateness: 6 d 22 h 20 min to lose none of them; instants close that much later."
        ),
    ),
    ErrorCode(
        "I108",
        "Text that looks like a number",
        "More than half of the texts of a predicate, in the first records of an input, look like numbers. A text is neither greater nor "
        'less than a number: `"25" > 20` is an error, and the condition does not hold.',
        'Write `decimal: ","` in a CSV input with decimal commas; a type in the map (`"{speed}"^^xsd:decimal`); or a cast in the query '
        "(`xsd:decimal(?speed)`).",
        ShownMessage(
            'fire.yaml:9:10: I108 warning: input cars: text that looks like a number: :speed "12,5" (all its texts)\n'
            "  9 |     map: '[] a :Report ; :speed {speed} .'\n"
            "    |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            'Write decimal: ",".'
        ),
    ),
    ErrorCode(
        "I109",
        "Times with and without a zone",
        "In the first records of an input some date-times have a zone and others have none. A time without a zone is read as UTC; "
        "with a map in the `time_zone` of the pipeline, if it names one.",
        "Name the zone of those without one (`time_zone`, for CSV and JSON, or for the whole pipeline), or write zones into the data.",
        ShownMessage(
            "I109 warning: input cars: times without a zone (3, as in cars.csv:2) and with one (1, cars.csv:5)\n"
            "Name their zone, as in time_zone: Europe/Berlin or time_zone: UTC; without it they are read as UTC."
        ),
    ),
    ErrorCode(
        "I110",
        "Times without a zone",
        "The date-times of an input have no zone, and none is declared: they are read as UTC.",
        "Name their zone, `time_zone: UTC` if it is that (CSV and JSON), or write zones into the data; else accept it: "
        "`report: { accept: [I110] }`.",
        ShownMessage(
            "I110 warning: input cars: its times have no zone (cars.csv:2)\n"
            "Name their zone, as in time_zone: Europe/Berlin or time_zone: UTC; without it they are read as UTC."
        ),
    ),
    ErrorCode(
        "I111",
        "No record has a term of a query",
        "A query, or a Datalog rule below it, needs a predicate or a class that occurs neither in the records read by `dotr check --data` "
        "nor in the background knowledge, so it has no answer on these records.",
        "Correct the spelling in the rule or in the map; or read more records: `dotr check --data 100000 CONFIG`.",
        ShownMessage(
            "fire.dotr:4:35: I111 warning: a query asks for :Raport, and no record brings it\n"
            "  4 | from A = [ SELECT ?x WHERE { ?x a :Raport } ]\n"
            "    |                                   ^^^^^^^\n"
            "Did you mean :Report?"
        ),
    ),
    ErrorCode(
        "I112",
        "Records that cannot be read",
        "Some of the first records of an input cannot be read; in a run each becomes a dead letter. The message has the first of them.",
        "Correct the data or the input's settings: `delimiter`, `encoding`, `time`, `time_format`, the unit of `time`.",
        ShownMessage(
            "I112 warning: input cars: 1 of 5 rows cannot be read; cars.csv:6: its time, at: 'x' is neither an integer nor an ISO 8601 "
            "date-time\nEach becomes a dead letter."
        ),
    ),
    ErrorCode(
        "I113",
        "A silent input or partition delays all others",
        "An instant closes when every partition of a topic, and every subscription of an MQTT broker, has passed it. An empty or silent "
        "partition never passes it; without `idle` the others wait for it without end. So it is with every file that goes on (`tail`).",
        "Bound the wait, for example by `idle: 1 min`: later elements of instants that have closed are then dead letters (reason `idle`). "
        "If every partition always has records, accept the warning: `report: { accept: [I113] }`.",
        InFiles(
            (
                (
                    "example.yaml",
                    _CONFIG.format("http://example.org/", "format: ndjson, kafka: { bootstrap.servers: b1, subscribe: a }"),
                ),
                ("rules.dotr", RULE),
            )
        ),
    ),
    ErrorCode(
        "I114",
        "An input without a guarantee",
        "With `qos: 0` an MQTT input loses, without a notice, messages that are published while the connection is broken or the broker is "
        "busy. A WebSocket without `resume` loses what is sent while the connection is broken; a dead letter (reason `lost`) tells of it.",
        "Leave `qos` out: the default 1 is at least once. Write `resume: true` for a WebSocket of a stream that dotr publishes. If only "
        "the newest values matter, accept the warning: "
        "`report: { accept: [I114] }`.",
        InFiles(
            (
                (
                    "example.yaml",
                    _CONFIG.format("http://example.org/", 'format: ndjson, idle: 1 min, mqtt: { url: "mqtt://b", topics: [a], qos: 0 }'),
                ),
                ("rules.dotr", RULE),
            )
        ),
    ),
    ErrorCode(
        "I115",
        "Topic filters that match too much",
        "`#` alone matches every topic of the broker. If several filters match a topic, a broker may send each of its messages once for "
        "each filter; such a message is a repeated element.",
        "Name the intended topics, each once. If the filters are intended, accept the warning: `report: { accept: [I115] }`.",
        InFiles(
            (
                (
                    "example.yaml",
                    _CONFIG.format("http://example.org/", 'format: ndjson, idle: 1 min, mqtt: { url: "mqtt://b", topics: ["a/#", "a/+"] }'),
                ),
                ("rules.dotr", RULE),
            )
        ),
    ),
    ErrorCode(
        "I116",
        "An HTTP input without tokens",
        "Without `tokens` an HTTP input accepts messages of every process that reaches its address. It refuses only what a browser sends "
        "for a page: a request with an `Origin`, with another `Host` than the address, or with another `Content-Type` than that of the "
        "format.",
        "Name an environment variable that holds the tokens of the senders: `tokens: ${IN_TOKENS}`. If everybody who reaches the address "
        "may send, accept the warning: `report: { accept: [I116] }`.",
        InFiles(
            (
                ("example.yaml", _CONFIG.format("http://example.org/", "format: ndjson, idle: 1 min, http: { listen: 8081 }")),
                ("rules.dotr", RULE),
            )
        ),
    ),
    ErrorCode(
        "I117",
        "Time goes on with elements alone",
        "A rule with `delayed by` or `every`, a continuous query that reports by time, or a LARS file with a window of time fires as time "
        "goes on. It reads an input that grows, and without `clock` the time of a run goes on with its elements alone. So an alarm that "
        "nothing was read for ten minutes comes with the next element; where the sender, the network or the broker dies, none comes.",
        "Write `clock: 10 s` in the configuration: the time then follows the machine's, ten seconds behind it ([operation.md](operation.md"
        "#the-clock)). If something always comes, accept the warning: `report: { accept: [I117] }`.",
        InFiles(
            (
                ("example.yaml", _CONFIG.format("http://example.org/", 'format: ndjson, idle: 1 min, path: "-"')),
                ("rules.dotr", "rule Tick\ndefine Tick = [ [] a :Tick ]\nfrom every 1 min as T\n"),
            )
        ),
    ),
    ErrorCode(
        "I118",
        "Texts among numbers",
        "More than half of the values that the first records of an input give for a predicate are numbers, and some are text. A comparison "
        "with a text, or arithmetic with it, is an error: the condition is false, and an aggregate of such values has no value.",
        "Write a type in the map: `{Wert:decimal?}` leaves out what is no number, and counts it; with `{Wert:decimal}` its element is a "
        "dead letter. Else test the value in the query (`FILTER(isNumeric(?v))`), or accept it: `report: { accept: [I118] }`.",
        ShownMessage(
            'pumps.yaml:7:10: I118 warning: input pumps: 1 of 456 values of :bar is text ("n/a", export.csv:51)\n'
            '  7 |     map: "[] :bar {Wert} ."\n'
            "    |          ^^^^^^^^^^^^^^^^^^\n"
            "Write {Wert:decimal?}, which leaves such a text out, or {Wert:decimal}, which rejects its element; or accept it: report: "
            "{ accept: [I118] }"
        ),
    ),
    ErrorCode(
        "I119",
        "Values of two records mix",
        "Two records of one time give one subject different values of several predicates: the load of two processors of a host, for "
        "example. Records of one time are one graph, in which nothing says which values belong together: a query finds each with each.",
        "Name the part in the subject, as in `:{host}-{cpu}`, or use a blank node, `[]`. If the values are independent, accept it: "
        "`report: { accept: [I119] }`.",
        ShownMessage(
            "config.yaml:5:83: I119 warning: input load: readings.csv:2 and :3 both say :idle and :user of :h1 at 2026-03-01T12:00:00Z: "
            "their values mix\nName the part in the subject, as in :{host}-{cpu}, or use []; or accept it: report: { accept: [I119] }"
        ),
    ),
    ErrorCode(
        "I120",
        "Records of one time whose order may matter",
        "Among the first records of an input, whose times are whole seconds, some have the time of one before, its predicates, and its "
        "subject or an object: a door that is opened and closed within a second. Records of one time are one instant, which has no order. "
        "With `one_per_instant: apart` the order counts; then the warning tells of windows that just miss what was moved by a microsecond.",
        "Write `one_per_instant: apart` if the order in the file is that of the events, or a longer window; else accept it: "
        "`report: { accept: [I120] }`.",
        ShownMessage(
            "config.yaml:5:36: I120 warning: input doors: 2 of 5 rows share their time with one before, and are about the same thing\n"
            "They are one instant, without an order. If theirs matters, write one_per_instant: apart; or accept it: report: "
            "{ accept: [I120] }"
        ),
    ),
    ErrorCode(
        "I124",
        "A list of times of which an entry never counts",
        "Of a list of times the first that is in a record counts. Here an entry is in every record that was read, so that the next one "
        "never counts, or the next one is a time of day: as `[Date, Time]` all records of a day would be at midnight. "
        "`dotr check` warns of it, `dotr check --data` refuses it.",
        "Write a date and its time of day as one text, or leave out what never counts.",
        ShownMessage(
            "air.yaml:5:43: I124 time is the first of a list that is there: Date is there in every record (24), and Time is a time of day "
            '(18.00.00)\nDate and time of day are one text: time: "{Date} {Time}".'
        ),
    ),
    ErrorCode(
        "I125",
        "Records that share the midnights of their days",
        "The times of the first records are dates alone, several records have each of them, and another column has times of day.",
        "Put the two together, as the message shows; or accept it: `report: { accept: [I125] }`.",
        ShownMessage(
            "air.yaml:5:43: I125 warning: input air: 24 records of each day share the time 00:00, beside a column Time\n"
            'Write time: "{Date} {Time}" and time_format: "%d/%m/%Y %H.%M.%S".'
        ),
    ),
    ErrorCode(
        "I126",
        "Times that may be in the second of two equal hours",
        "Where clocks are put back, an hour of local times comes twice, and its times are read as those of the first. In a file of an "
        "input with `time_zone` a time within such an hour is before one that came earlier, so from there on the times are probably those "
        "of the second hour: they may be late, or an hour off. The first such time of a file is told.",
        "Write the offset into the data, or log in UTC (`time_zone: UTC`); if the file is only not sorted, accept it: "
        "`report: { accept: [I126] }`.",
        ShownMessage(
            "I126 warning: input log: log.csv:7 goes back; from here on it may be the second 02:00 of Europe/Berlin\n"
            "It is read as the first. Write the offset into the times, or log in UTC: time_zone: UTC."
        ),
    ),
    ErrorCode(
        "I127",
        "A part of a mapping that is left out",
        "A mapping of RML or R2RML names a graph for its triples, but the triples of a record are one element, whose graph has no name; or "
        "it names a parent triples map that is not in the file.",
        "Leave the part out, add the triples map, or accept it: `report: { accept: [I127] }`.",
        ShownMessage(
            "wiki.rml.ttl:4:29: I127 warning: an element is one graph: the graph of the mapping is left out\n"
            "Leave it out, or accept it: report: { accept: [I127] }"
        ),
    ),
    ErrorCode(
        "I137",
        "A time far ahead of the machine's",
        "In a run with `clock`, the time of an element is more than a day ahead of the machine's. It is taken, and its instant closes when "
        "the clock gets there, or when every input has passed it. Only the first one is told.",
        "Correct the clock of the sender, `time.unit`, or `time_zone`. With `ahead: 1 d` such messages of a broker are dead letters.",
        ShownMessage(
            "I137 warning: data/mon.ndjson:7: the time 2026-11-30T08:00:00Z is more than a day ahead of the machine's\n"
            "It is taken, and its instant waits. Is the sender's clock right, or time.unit, or time_zone?"
        ),
    ),
    ErrorCode(
        "I138",
        "A recording that ends amid a line",
        "The last line of a recording (`record`) is cut: the run that wrote it was killed, or the file was copied while it was written. "
        "The recording is read up to the line before; where that is of the same instant, up to the instant before: one that is not "
        "whole has made no event in that run.",
        "Nothing, if the run was killed: what it took is there, but for its last instant. Otherwise copy the file again.",
        ShownMessage(
            "I138 warning: out/run.ndjson:57: the recording ends amid a line, so the run was killed there\n"
            "It is read up to the line before; what the run took after that is lost."
        ),
    ),
    ErrorCode(
        "I139",
        "A line that is no line of a recording",
        "A recording has a JSON object a line, in the order of time: an element (`time`, `input`, `stream`, `graph`), a heartbeat (`time` "
        "alone), the end of all inputs, or a change of the program. A line before the last one is another.",
        "Name a file that a run with the key `record` has written. Elements of another source are read by an input with its format.",
        ShownMessage(
            "I139 data/mon.ndjson:1: this is no line of a recording: it names no input\n"
            "A recording is written by a run with the key record; its lines are in the order of time."
        ),
    ),
    ErrorCode(
        "I140",
        "The program of a recorded run was changed",
        "While the run was recorded, it read its rules and its background again. A reader of the recording has one program for all of it.",
        "Nothing, if the program is the one that the run had last, and its later events are meant.",
        ShownMessage(
            "I140 warning: out/run.ndjson:90: here the run read its program again\n"
            "One program reads the whole recording: events before this line may differ from those that the run wrote."
        ),
    ),
    ErrorCode(
        "I141",
        "The store of an input fails",
        "An object of an input cannot be read, or a folder of a store cannot be listed: the store does not answer, is missing, or refuses. "
        "A request is repeated for a while before. What the store holds is no dead letter, so the run ends with 1; at the start it is "
        "refused.",
        "Start the run again once the store answers: on Spark it goes on from its checkpoint. If it refuses, correct the credentials "
        "([operation.md](operation.md)).",
        ShownMessage(
            "I141 cannot read s3://lake/in/mon.ndjson: the store does not answer in time\n"
            "The same command goes on, or begins anew, once the store answers and permits it."
        ),
    ),
    ErrorCode(
        "I142",
        "An output at a URL that waits for the end of the run",
        "A store writes an object as a whole. In process an output at a URL is one object, which is there when the run ends or is stopped; "
        "until then the output is a temporary file of this machine. The inputs of this run grow, so its end may be far away, and what a "
        "killed run has found is lost.",
        "Write `engine: spark`, which writes an object for each batch; or name a file of this machine; or accept it: "
        "`report: { accept: [I142] }`.",
        ShownMessage(
            "I142 warning: s3://lake/out/fire.ndjson is written as a whole, when the run ends, and its inputs grow\n"
            "Write engine: spark, which writes an object for each batch; or name a file of this machine. Or accept it: report: "
            "{ accept: [I142] }"
        ),
    ),
    ErrorCode(
        "I201",
        "The output exists already",
        "A run never mixes its output with that of an older run.",
        "Use `--fresh` to remove the output first, or choose another path.",
        ShownMessage(
            "I201 out/fire.ndjson is there already\n"
            "A run does not mix its output with an older one's: use --fresh to remove it first, or another path."
        ),
    ),
    ErrorCode(
        "I202",
        "The output cannot be written",
        "This user may not write to the folder, or a file has the name of a folder of the path. A full disk has no code: the run ends with "
        "1, and can be continued once there is space.",
        "Choose a path that can be written.",
        ShownMessage("I202 cannot write out/fire.ndjson: permission denied\nChoose a path that can be written."),
    ),
    ErrorCode(
        "I203",
        "Parquet needs pyarrow",
        "An output has the format parquet, which needs the package pyarrow, and pyarrow is not installed.",
        "Run `pip install 'dotr[parquet]'`, or choose another format.",
        ShownMessage("I203 out/fire.parquet is to be Parquet, and pyarrow is not installed\nRun pip install 'dotr[parquet]'."),
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
    ErrorCode(
        "T111",
        "A mapping with a part that is not read",
        "A `map` that names a Turtle file is a mapping of RML or R2RML. Its triples maps are applied to each record, and their triples are "
        "one element. It has templates, references, constants, classes, datatypes, languages, term types; no join conditions, no functions,"
        " no graphs that depend on the record, one source, and one iterator.",
        "Do at the place what the message says, or write the map as a template (inputs.md).",
        ShownMessage(
            "rooms.rml.ttl:12:5: T111 records are not joined\n"
            "Without a join condition the parent's subject of the same record is meant; join records of two sources in a rule."
        ),
    ),
)
