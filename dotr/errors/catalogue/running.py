"""Codes of inputs and outputs (I), and of Spark (S)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import RULE, ErrorCode, InFiles, ShownMessage

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
        "QoS 0 guarantees nothing",
        "With `qos: 0` an MQTT input loses, without a notice, messages that are published while the connection is broken or the broker is "
        "busy.",
        "Leave `qos` out: the default 1 is at least once. If only the newest values matter, accept the warning: "
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

SPARK: tuple[ErrorCode, ...] = (
    ErrorCode(
        "S101",
        "Spark cannot run here",
        "Spark needs Java 17 or later and the packages of `dotr[spark]`. This is an error if the command line selects Spark; otherwise "
        "the run continues in process.",
        "Install what is missing, or run with `--engine local`.",
        ShownMessage("S101 Spark cannot run here: there is no Java\nInstall Java 17 or later, or run with --engine local."),
    ),
    ErrorCode(
        "S102",
        "The checkpoint cannot be used",
        "It belongs to another pipeline, other inputs or a later release. A checkpoint continues with the same inputs; files may be added "
        "where an input has `watch: true`. Rules may change: `dotr plan` shows the state that each of them keeps. A checkpoint of a "
        "release without that feature needs the same program once, so that the owner of each state is recorded. The time unit may not "
        "change, since all times in the checkpoint are in it.",
        "Start over with `--fresh`, or name another `spark.checkpoint`; or restore the inputs and rules of the checkpoint.",
        ShownMessage(
            "S102 the checkpoint out/fire/checkpoint cannot be used: it belongs to the pipeline fire, this one is smoke\n"
            "Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint."
        ),
    ),
    ErrorCode(
        "S103",
        "The checkpoint cannot be written",
        "This user may not write to the folder, or a file has the name of a folder of the path.",
        "Name another folder as `spark.checkpoint`.",
        ShownMessage("S103 the checkpoint /checkpoint cannot be written: Permission denied\nName another folder as spark.checkpoint."),
    ),
    ErrorCode(
        "S104",
        "The checkpoint is not on this machine",
        "A checkpoint is a folder of this machine, local or mounted.",
        "Name such a folder.",
        ShownMessage("S104 the checkpoint s3://bucket/checkpoint is not a folder of this machine\nName a local or mounted folder."),
    ),
    ErrorCode(
        "S105",
        "The state in the checkpoint cannot be used",
        "The state was written by another release, or is damaged.",
        "Start over with `--fresh`.",
        ShownMessage("S105 the state in the checkpoint cannot be used: it is of version 1, this release reads 2"),
    ),
    ErrorCode(
        "S106",
        "The stream has ended",
        "A run without `watch`, or the end of standard input, closed all instants of the checkpoint's stream: nothing can be added to it.",
        "Start over with `--fresh`, or name another `spark.checkpoint`. A run with `watch: true` does not end.",
        ShownMessage(
            "S106 the stream in the checkpoint out/fire/checkpoint has ended, and nothing can be added to it\n"
            "Its inputs came to an end in a run without watch, and all instants closed. Start over with --fresh, or name "
            "another spark.checkpoint."
        ),
    ),
    ErrorCode(
        "S107",
        "TriG by standard input on Spark",
        "On Spark, standard input is copied record by record, to be read again after a crash; a record of TriG depends on the "
        "declarations before it.",
        "Send N-Quads (`format: nquads`), name files, or run with `--engine local`.",
        ShownMessage(
            "S107 Spark reads standard input a record at a time, and a record of TriG needs the declarations before it\n"
            "Send N-Quads (format: nquads), name files, or run with --engine local."
        ),
    ),
    ErrorCode(
        "S111",
        "There is no checkpoint",
        "`dotr status` reads the checkpoint folder of a run on Spark, which exists once such a run has begun; its files must be complete.",
        "Name the folder that the configuration names as `spark.checkpoint`.",
        ShownMessage(
            "S111 there is no checkpoint at out/fire\n"
            "Name the folder that the configuration names as spark.checkpoint; it is there once a run on Spark has begun."
        ),
    ),
    ErrorCode(
        "S112",
        "The state of a checkpoint cannot be read",
        "`dotr status` reads the state with Spark. The state was written by another release, or the running query has removed files "
        "meanwhile.",
        "Repeat the command, or omit the state with `--quick`.",
        ShownMessage(
            "S112 the state in out/fire/checkpoint cannot be read: its version is 1, this release reads 2\n"
            "Its totals, as the run counted them, are shown with --quick."
        ),
    ),
    ErrorCode(
        "S113",
        "The Python of the workers does not exist",
        "Spark starts Python workers on the driver's machine as well as on the executors', by the same path: the source is planned there. "
        "A path into an archive (`--archives env.tar.gz#env` with `PYSPARK_PYTHON=./env/bin/python`) does not exist on the driver "
        "unless the environment is unpacked there too.",
        "Unpack the environment in the folder from which you submit, under the name of the archive.",
        ShownMessage(
            "S113 the Python of Spark's workers, PYSPARK_PYTHON=./env/bin/python, is not in /home/me/pipeline\n"
            "It is a path on the driver's machine too: unpack the environment here under the same name, and submit from this folder."
        ),
    ),
    ErrorCode(
        "S114",
        "The checkpoint is damaged",
        "A file of the checkpoint is empty, truncated, changed or missing: after a power cut, on a full or failing disk, or because the "
        "folder was copied during a run. Files needed at the start are checked before Spark reads them; files of the state once a query "
        "has failed. `dotr.json` has a checksum of its own. The message names the file, and whether it can be removed.",
        "Follow the message; keep a copy of the folder until the run works. Otherwise restore the whole folder from a copy, or start over "
        "with `--fresh`.",
        ShownMessage(
            "S114 the checkpoint is damaged: out/checkpoint/query/offsets/7 is empty\n"
            "Its batch is not written yet. Remove out/checkpoint/query/offsets/7 and out/checkpoint/query/offsets/.7.crc: the same command "
            "plans it again."
        ),
    ),
    ErrorCode(
        "S115",
        "A part of the input on Spark",
        "`--head N` stops a run after N elements. On Spark the elements are read by several tasks at once, and only a batch as a whole can "
        "be written, so a run cannot end after a number of elements.",
        "Run with `--engine local`, to another output: `--set output.0.path=out/head.ndjson`.",
        ShownMessage(
            "S115 --head stops a run in process only, and this one runs on Spark\n"
            "On Spark several tasks read at once, and a batch is written as a whole. Run with --engine local."
        ),
    ),
    ErrorCode(
        "S120",
        "Records were deleted before they were read",
        "The broker's retention has removed offsets of a partition that the run still needs; the message has the range. The run ends "
        "with 1. With `failOnDataLoss: false` it continues after them, with one dead letter (reason `lost`) for the range; but a batch "
        "that was planned on Spark is never repeated with fewer records.",
        "Give the topic a longer retention, or set `failOnDataLoss: false`.",
        ShownMessage(
            "S120 input sensors: the records 5 to 11 of partition 0 of readings are lost: the broker has deleted them before they were "
            "read\n"
            "Give the topic a longer retention (retention.ms, retention.bytes). With failOnDataLoss: false a run goes on behind them, with "
            "one dead letter (reason lost)."
        ),
    ),
    ErrorCode(
        "S121",
        "A replaced topic",
        "The topic was deleted and made again, or an offset is beyond its end, so the offsets of the configuration or the checkpoint "
        "belong to another topic.",
        "Start over with `--fresh` to read the new topic from its beginning.",
        ShownMessage(
            "S121 input sensors: partition 0 of readings is not what it was: its topic has another id\n"
            "Was the topic deleted and made again? To read it from its beginning start over with --fresh (it removes this pipeline's "
            "output and checkpoint)."
        ),
    ),
    ErrorCode(
        "S122",
        "A batch is in doubt",
        "A batch is written to a topic in a transaction, and its number is committed with it as the offset of a group of the same name. "
        "A run was interrupted in a batch, and the broker no longer has that offset: it keeps offsets for `offsets.retention.minutes`, a "
        "week by default, or the group or the topic was deleted. So it is unknown whether the batch is in the topic.",
        "Read the end of the topic: the header `dotr-id` of each record has the pipeline, the time and the number of its event. Then "
        "declare the last batch in the topic: `dotr run --last-written N`.",
        ShownMessage(
            "S122 the broker has forgotten whether batch 41 is in topic fires of Kafka at b1:9092\n"
            "Look for its messages: --last-written 41 says that they are there, --last-written 40 that they are not."
        ),
    ),
    ErrorCode(
        "S123",
        "A batch takes longer than its transaction may",
        "The broker has aborted the transaction of a batch: it was open for longer than `transaction.timeout.ms`, by default 15 minutes. "
        "Readers with `read_committed` receive nothing of the batch; the run ends with 1, and the same command writes the batch again.",
        "Raise `transaction.timeout.ms` of the output, which the broker's `transaction.max.timeout.ms` bounds, or make batches smaller "
        "with `spark.batch`.",
        ShownMessage(
            "S123 batch 41 took longer than the 900 s of transaction.timeout.ms to topic fires of Kafka at b1:9092\n"
            "Raise transaction.timeout.ms, which the broker's transaction.max.timeout.ms bounds; or make spark.batch smaller."
        ),
    ),
    ErrorCode(
        "S124",
        "No such secret in the environment",
        "A secret is written as `${NAME}`, and the process that needs it reads its own environment: the command, "
        "and on Spark every worker. A token must not be empty, nor have white space or characters beyond ASCII: no header carries it.",
        "Set the variable where dotr runs. Workers on other machines get it from the cluster: "
        "`spark.executorEnv.NAME` would show the value.",
        ShownMessage(
            "S124 the environment of this process has no variable KAFKA_PASSWORD\n"
            "Set KAFKA_PASSWORD where dotr runs, and for the workers of Spark."
        ),
    ),
    ErrorCode(
        "S125",
        "A Kafka broker refuses",
        "The broker refuses the credentials, or the reading or writing of a topic, or has no such topic to write to, or its certificate "
        "cannot be verified. A retry would not help. At the start the command ends with 2; a run that has begun ends with 1.",
        "Correct the mechanism, the user, the password (an environment variable), the rights of the user, or `ssl.ca.location`. While a "
        "broker does not answer, the run retries without end.",
        ShownMessage(
            "S125 input sensors: b1:9093 refuses: sasl_ssl://b1:9093/bootstrap: SASL authentication error: Authentication failed: Invalid "
            "username or password (after 301ms in state AUTH_REQ)\n"
            "Are sasl.mechanism, sasl.username and sasl.password right?"
        ),
    ),
    ErrorCode(
        "S126",
        "No such topic",
        "The cluster has no topic or partition of this name, or no topic that matches the pattern. A run makes no topics. A topic that is "
        "deleted while it is read ends the run with 1.",
        "Correct the name, or make the topic first.",
        ShownMessage("S126 input sensors: b1:9092 has no topic reading\nDid you mean readings?"),
    ),
    ErrorCode(
        "S127",
        "No broker answers",
        "A command that reads a topic up to its present end (`dotr check --data`, `dotr why-not`, `dotr replay`) does not wait for a "
        "broker. A run does wait: it retries without end.",
        "Correct `bootstrap.servers`, or start the broker.",
        ShownMessage(
            "S127 input sensors: no answer from b1:9092: b1:9092/bootstrap: Connect to ipv4#10.0.0.7:9092 failed: Connection refused\n"
            "Is bootstrap.servers right, and does the broker run?"
        ),
    ),
    ErrorCode(
        "S128",
        "An MQTT broker refuses",
        "The broker refuses the connection or the subscription, or its certificate cannot be verified. A retry would not help. "
        "At the start the command ends with 2; a run that has begun ends with 1.",
        "Correct the user, the password (an environment variable), the rights of the user at the broker, or `tls.ca`. "
        "While a broker does not answer, the run retries without end.",
        ShownMessage(
            "S128 input site: mqtts://broker.example:8883 refuses the connection: the user is not authorized\n"
            "Correct username, password (its environment variable) or the rights of the user."
        ),
    ),
    ErrorCode(
        "S132",
        "A batch of the old rules is not finished",
        "The rules have changed so that the state moves, and the last run was interrupted between the writing of a batch to a topic and "
        "its completion in the checkpoint. The changed rules would compute that batch again, and a batch cannot be removed from a topic.",
        "Run the old rules once more, which finishes the batch; then change them.",
        ShownMessage(
            "S132 batch 41 of the rules as they were is in an output and not yet in the checkpoint out/checkpoint\n"
            "Run the rules as they were once more, which finishes that batch, then change them; or start over with --fresh."
        ),
    ),
    ErrorCode(
        "S133",
        "Another run has taken over an output",
        "A run with the same checkpoint has started elsewhere, on another machine or from a copy of the folder, and has fenced this one: "
        "the broker accepts no further transaction of this run. The run ends with 1.",
        "Run a checkpoint once only. A copy of a checkpoint is the same checkpoint.",
        ShownMessage("S133 another run on the same checkpoint has taken over topic fires of Kafka at b1:9092\nStop one of the two."),
    ),
    ErrorCode(
        "S134",
        "A checkpoint of a program with queries has an older form",
        "The checkpoint was made when a program with continuous queries kept all of its state as one value. "
        "This release does not read that form.",
        "Start over with --fresh, or name another spark.checkpoint.",
        ShownMessage(
            "S134 the checkpoint out/checkpoint keeps the state of a program with queries as one value, which is not read any more\n"
            "Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint."
        ),
    ),
    ErrorCode(
        "S150",
        "The times of the inputs cannot be read by tasks",
        "Bounded inputs of more than 64 MiB are scanned by tasks of Spark, which find where batches may end. Such a task has failed three "
        "times: Spark's worker was lost, or the checkpoint cannot be written. The files written so far are intact.",
        "Run the same command again: it continues from the checkpoint. Details are in Spark's log, `spark.log` in the checkpoint.",
        ShownMessage(
            "S150 the times of the inputs could not be read by tasks: Spark stopped: a Python process that it had started was lost: was it "
            "killed, or out of memory? (the log is out/checkpoint/spark.log)\n"
            "The same command goes on from the checkpoint."
        ),
    ),
    ErrorCode(
        "S151",
        "The times of the inputs are not read",
        "The planner of batches waits for the times of the inputs, which tasks of Spark read on behalf of the process that started the "
        "run. That process has shown no progress for two minutes: it was lost or stopped, or it writes the checkpoint to another disk.",
        "Run the same command again: it continues from the checkpoint. The checkpoint has to be one folder for all machines.",
        ShownMessage(
            "S151 the index out/checkpoint/index/0-3.json is not made: the process that lets tasks scan has been silent for 120 s\n"
            "The same command goes on from the checkpoint."
        ),
    ),
    ErrorCode(
        "S155",
        "A worker cannot read the parsed program",
        "The driver parses a program, and sends the parsed form to Spark's workers as JSON. A worker found the name of a type in it "
        "that its own release of dotr does not have: it runs another release than the driver.",
        "Install the same release of dotr wherever Spark runs Python.",
        ShownMessage(
            "S155 a worker cannot read the program that the driver has parsed: 'noun of tomorrow' is the name of no type\n"
            "Install the same release of dotr wherever Spark runs Python."
        ),
    ),
)
