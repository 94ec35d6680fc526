"""Codes of configurations, rule tests and the command line (C)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import RULE, ErrorCode, InFiles, ShownMessage

_OUTPUT = "output: [{ format: ndjson, path: out.ndjson }]\n"
_INPUTS = "input: [{ name: a, format: ndjson, path: a.ndjson }]\n"
_INPUT = _INPUTS + _OUTPUT


def _config(text: str) -> InFiles:
    return InFiles((("example.yaml", text), ("rules.dotr", RULE), ("a.ndjson", "")))


CONFIGURATION: tuple[ErrorCode, ...] = (
    ErrorCode(
        "C102",
        "Not a configuration",
        "The file is not YAML, not a mapping of keys to values, or empty.",
        "Correct the place shown.",
        _config("name: example\nrules: [rules.dotr\n"),
    ),
    ErrorCode(
        "C103",
        "A key is given twice",
        "YAML would silently keep one of the two values.",
        "Keep one.",
        _config("name: a\nname: b\nrules: [rules.dotr]\n" + _INPUT),
    ),
    ErrorCode(
        "C104",
        "An unknown environment variable",
        "`${NAME}` stands for a variable of the environment that is not set.",
        "Set it, or write `${NAME:-default}`.",
        _config("name: example\nrules: ['${DOTR_EXAMPLE_RULES}/rules.dotr']\n" + _INPUT),
    ),
    ErrorCode(
        "C105",
        "`--set` does not fit",
        "The option is not `key.path=value`, or the configuration has no such key.",
        "For example `--set output.0.path=elsewhere.ndjson`.",
        ShownMessage("C105 --set output is not key.path=value\nFor example --set output.0.path=x"),
    ),
    ErrorCode(
        "C106",
        "No folder for generated code",
        "The environment variable `DOTR_CODE` names the folder for generated Python; it is no folder, or cannot be written.",
        "Name a folder that can be written, or unset the variable.",
        ShownMessage(
            "C106 DOTR_CODE=/dev/null is no folder for generated code: file exists\n"
            "Name a folder that can be written, or unset the variable."
        ),
    ),
    ErrorCode(
        "C201",
        "An unknown key",
        "Keys without a meaning are errors, so that a misspelt key is noticed.",
        "Correct it.",
        _config("name: example\nrule: [rules.dotr]\n" + _INPUT),
    ),
    ErrorCode(
        "C202", "A key is missing", "The configuration, or the rule test, needs it.", "Add it.", _config("rules: [rules.dotr]\n" + _INPUT)
    ),
    ErrorCode(
        "C203",
        "A value does not fit its key",
        "For example a number where a list is required, or an unknown format.",
        "Write a value of the expected kind.",
        _config("name: example\nrules: [rules.dotr]\ninput: [{ name: a, format: xml, path: a.xml }]\n" + _OUTPUT),
    ),
    ErrorCode(
        "C204",
        "Keys that do not go together",
        "`map` belongs to csv and json inputs, `settle` and `idle` to growing inputs, `ahead` to inputs of brokers and servers; "
        "`watch` needs a pattern; `tail` is of plain files in a format of a record a line; `one_per_instant` does not go with a lateness. "
        "A rule test has either `config`, or `rules`, "
        "`knowledge` and `time` of its own; `input` of a recording names an input of `config`. A reload reads `rules`, `knowledge`, "
        "`prefixes`, `limits` and `report` again; a run goes on with its other keys as they were.",
        "Leave one out; or start the run again.",
        _config("name: example\nrules: [rules.dotr]\ninput: [{ name: a, format: ndjson, path: a.ndjson, time: at }]\n" + _OUTPUT),
    ),
    ErrorCode(
        "C205",
        "Not a time, or not a duration",
        "A time is an integer or an ISO 8601 date-time; a delay is written like `30 s`.",
        "Write it in one of these forms.",
        _config("name: example\nrules: [rules.dotr]\ninput: [{ name: a, format: ndjson, path: a.ndjson, lateness: soon }]\n" + _OUTPUT),
    ),
    ErrorCode(
        "C206",
        "Conflicting paths",
        "A run would overwrite another of its outputs, or one of its inputs.",
        "Choose a path that is not in use.",
        _config("name: example\nrules: [rules.dotr]\n" + _INPUTS + "output: [{ format: ndjson, path: a.ndjson }]\n"),
    ),
    ErrorCode(
        "C207",
        "`--fresh` does not remove this",
        "`--fresh` removes only files that an earlier run wrote.",
        "Is the path right? If it is, remove it by hand.",
        ShownMessage(
            "C207 --fresh does not remove notes.txt, the output: it was not made by a run (it does not begin as such a file does)\n"
            "Is the path right? If it is, remove it by hand."
        ),
    ),
    ErrorCode(
        "C208",
        "A rule test's graph or term cannot be read",
        "Graphs of a rule test are Turtle with its `prefixes`; attributes are RDF terms as in Turtle, "
        "plain numbers and true and false among them (`m: 3.0`). "
        "Expected terms may use the prefixes rdf, rdfs, owl, xsd and prov without declaring them.",
        "Correct the graph or term.",
        InFiles(
            (
                (
                    "example.yaml",
                    "rules: [rules.dotr]\ncases:\n  - name: one\n    stream: [ { at: 1, graph: ':a a A .' } ]\n    expect: []\n",
                ),
                ("rules.dotr", RULE),
            )
        ),
    ),
    ErrorCode(
        "C209",
        "A file without a statement",
        "A file of rules, queries, LARS, EP-SPARQL or Datalog holds nothing but comments and declarations of prefixes.",
        "Check the file name. It is a warning.",
        InFiles((("example.yaml", "name: example\nrules: [rules.dotr]\n" + _INPUT), ("rules.dotr", "# to be written\n"), ("a.ndjson", ""))),
    ),
    ErrorCode(
        "C210",
        "A rule test expects an unknown event, fact or attribute",
        "No rule defines the event, no query has the label, or it has no such attribute: the case can only fail until the program is "
        "extended. It is a warning.",
        "Correct the name.",
        InFiles(
            (
                (
                    "example.yaml",
                    "rules: [rules.dotr]\ncases:\n  - name: one\n    stream: []\n    expect: [ { at: 1, event: EE } ]\n"
                    "    facts: [ { at: 1, fact: A, attributes: { y: '5' } } ]\n",
                ),
                ("rules.dotr", RULE),
            )
        ),
    ),
    ErrorCode(
        "C215",
        "Metrics cannot be served there",
        "The address of `metrics.prometheus` is used by another program, perhaps another run, or does not belong to this machine.",
        "Choose another address.",
        ShownMessage(
            "C215 metrics cannot be served at 127.0.0.1:9464: address already in use\n"
            "Is another run there already? Choose another metrics.prometheus."
        ),
    ),
    ErrorCode(
        "C216",
        "Another run is writing there",
        "A run locks its outputs, its dead letters and its checkpoint until it ends, on both engines: no other run, of any "
        "pipeline, with or without `--fresh`, writes to them or removes them. A killed run leaves no lock. `dotr reload` finds a run "
        "by its locks; it says so where the run is on another machine, is of an earlier release, is being reloaded already, or "
        "only serves what it has published, since all inputs have ended.",
        "Wait for the other run to end, or stop it; or choose other paths.",
        ShownMessage(
            "C216 another run is writing to out/fire.ndjson and out/checkpoint: pipeline fire, process 4711 on plant\n"
            "Wait for its end, or stop it; or choose other paths. Nothing was removed."
        ),
    ),
    ErrorCode(
        "C217",
        "Standard input cannot be replayed",
        "`why`, `why-not`, `facts`, `replay` and `report` read the inputs again. Standard input can be read only once; a run on "
        "Spark keeps a copy in its checkpoint, and removes segments that it no longer needs.",
        "Name a file that holds the input.",
        ShownMessage(
            "C217 standard input cannot be replayed: no checkpoint has a copy of it\n"
            "Name a file that holds the input: --set input.0.path=FILE"
        ),
    ),
    ErrorCode(
        "C218",
        "There is no such case",
        "`--case` names a case of a rule test, by its name or by its number from 1 on. A configuration has no cases, and a rule test "
        "has no values that `--set` could change. `--filter` must match the name of at least one case.",
        "Correct the name, or leave it out.",
        ShownMessage("C218 fire_test.yaml has no case smok\nDid you mean smoke?"),
    ),
    ErrorCode(
        "C219",
        "An option names an unknown rule, time or attribute",
        "`--rule` names a rule of the program, `--at`, `--from` and `--to` are times as an element may have them, and `--where` gives an "
        "attribute and a term in Turtle.",
        "Correct the name, the time or the term.",
        ShownMessage("C219 there is no rule Leek\nDid you mean Leak?"),
    ),
    ErrorCode(
        "C222",
        "A comment that allows no warning",
        "`# dotr: allow D501 (the links are few)` above a rule or query, a Datalog rule, or an entry of a YAML file silences the warnings "
        "of this code that have their place there. It needs a reason, the code of a warning, and such a warning: without one "
        "(any more), the comment would hide a later mistake. A code that depends on the data is verified only when a configuration is "
        "checked. `report: { accept: [D502] }` accepts a code in all files of a configuration.",
        "Remove the comment, or correct it. It is a warning.",
        InFiles((("rules.dotr", RULE.replace("define", "# dotr: allow D217 (the dashboard reads it)\ndefine")),)),
    ),
    ErrorCode(
        "C223",
        "A name that is probably misspelt",
        "A predicate or class occurs once in all files of the program (rules, Datalog, background, the maps of CSV inputs, the streams of "
        "a rule test), and another one, which differs in one letter, occurs three times or more. A misspelt name matches nothing, without "
        "an error. Names of fewer than four letters, and names that differ in a digit or by an `s` at their end, are not compared.",
        "Correct the name. If both are right, write above the statement: `# dotr: allow C223 (a valve has both)`. It is a warning.",
        InFiles(
            (
                (
                    "example.yaml",
                    "name: example\nrules: [rules.dotr]\n" + _INPUT,
                ),
                (
                    "rules.dotr",
                    "PREFIX : <http://example.org/>\n"
                    "query Temp = [ SELECT ?v WHERE { ?t :value ?v } ]\n"
                    "rule High define High = [ [] :value ?v ] from Temp if Temp.?v > 60 with High.?v = Temp.?v\n"
                    "rule Low define Low = [ [] :value ?v ]\n"
                    "from Cold = [ SELECT ?v WHERE { ?t :valeu ?v FILTER(?v < 10) } ] with Low.?v = Cold.?v\n",
                ),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "C224",
        "A comparison without another side",
        "`dotr replay` compares a configuration with another one (`--against`), or with itself under other values (`--set`); "
        "`dotr audit` compares a replay with the outputs of a run, of which one must be there and readable. "
        "`--head` and `--show` are numbers from 0 on.",
        "Name the change, or the output of a run.",
        ShownMessage(
            "C224 there is nothing to compare city.yaml with\n"
            "Name another configuration, --against OTHER, or change a value: --set rules.0=rules/new.dotr"
        ),
    ),
    ErrorCode(
        "C225",
        "A secret in the configuration",
        "Passwords, tokens, keys and the password of a URL are written as `${NAME}`: each process reads the value from its own "
        "environment when it needs it. No message, log, checkpoint or task contains the value.",
        "Set an environment variable, and write its name.",
        _config(
            "name: example\nrules: [rules.dotr]\n"
            "input: [{ name: a, format: ndjson, kafka: { bootstrap.servers: b1, subscribe: a, sasl.password: abc } }]\n" + _OUTPUT
        ),
    ),
    ErrorCode(
        "C226",
        "A library for a broker, a server, a format or a comparison is not installed",
        "Kafka, MQTT, HTTP, object stores, Jelly, Parquet and `dotr kb compare` need a Python package each, which is an extra of dotr: "
        "`dotr[kafka]`, `dotr[mqtt]`, `dotr[http]`, `dotr[objects]`, `dotr[jelly]`, `dotr[parquet]`, `dotr[owlrl]`.",
        "Install the extra that the message names.",
        ShownMessage("C226 HTTP needs the Python package aiohttp, which is not installed\npip install 'dotr[http]'"),
    ),
    ErrorCode(
        "C227",
        "A property of a Kafka client cannot be used",
        "A key with a dot is a property of librdkafka, which does not know this one, or does not take its value.",
        "Correct the name or the value: librdkafka's CONFIGURATION.md lists both.",
        _config(
            "name: example\nrules: [rules.dotr]\n"
            "input: [{ name: a, format: ndjson, idle: 5 s, kafka: { bootstrap.servers: b1, subscribe: a, securty.protocol: x } }]\n"
            + _OUTPUT
        ),
    ),
    ErrorCode(
        "C228",
        "An input cannot listen there",
        "The address of `http: { listen: … }` is used by another program, perhaps another run, or does not belong to this machine.",
        "Choose another address, or end the other program.",
        ShownMessage(
            "C228 input posts cannot listen at http://127.0.0.1:8081/in: address already in use\n"
            "Is another run, or another program, there already? Choose another address."
        ),
    ),
    ErrorCode(
        "C237",
        "An element on no stream",
        "Continuous queries of the program read several streams and the element names none, or the element names a stream that no input "
        "feeds.",
        'Write `stream: "<…>"` beside `at`.',
        InFiles(
            (
                (
                    "example.yaml",
                    "rules: [queries.rspql]\ncases:\n  - name: one\n    stream: [ { at: 1, graph: '<a:b> a <a:C> .' } ]\n    expect: []\n",
                ),
                (
                    "queries.rspql",
                    "REGISTER RSTREAM Both AS SELECT ?x FROM WINDOW ON <in> [RANGE 10s] FROM WINDOW ON <out> [RANGE 10s] { ?x a ?c }\n",
                ),
            )
        ),
    ),
    ErrorCode(
        "C238",
        "Events that no output shows",
        "The events of a SELECT or ASK have attributes and no graph. NDJSON writes them with an empty graph; every other format leaves "
        "them out.",
        "Add an output of the format ndjson. It is a warning.",
        InFiles(
            (
                (
                    "example.yaml",
                    "name: example\nrules: [queries.rspql]\n" + _INPUTS + "output: [{ format: trig, path: out.trig }]\n",
                ),
                (
                    "queries.rspql",
                    "REGISTER RSTREAM Seen AS SELECT ?x FROM NAMED WINDOW <w> ON <a> [RANGE 10s] { WINDOW <w> { ?x a ?c } }\n",
                ),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "C261",
        "A lock file that is none",
        "A run locks an output with a hidden file beside it, `.fire.ndjson.lock`. At that name is a symbolic link, a file with another "
        "name too, or a file with other content. Whoever may write to the folder could have put it there, so that a run would empty the "
        "file behind it. The run does not start, and nothing was changed.",
        "Remove what is there, if nothing needs it; write to a folder that no other user can write to.",
        ShownMessage(
            "C261 out/fire.ndjson cannot be locked: /srv/plant/out/.fire.ndjson.lock is a symbolic link\n"
            "Remove it if nothing needs it, or write to a folder that no other user can write to. Nothing was removed."
        ),
    ),
    ErrorCode(
        "C262",
        "A cache that others could have filled",
        "Cached files are code that runs (Spark's folder, archives of classes) and knowledge that is believed (compiled backgrounds). So a "
        "cache is used only if it and every folder on the way to it belong to this user or to root, and no other user can write there. "
        "Otherwise `~/.cache/dotr` is used in its place, or a folder that is removed at the end; the output is the same. It is a warning, "
        "given once.",
        "Take the permission to write from others, or name another folder. `knowledge.shared: true` uses a `knowledge.cache` that several "
        "users share (docs/operation.md).",
        ShownMessage(
            "C262 warning: the cache /srv/cache/dotr is not used, since others could have put files there: /srv/cache can be written by "
            "all users; /home/plant/.cache/dotr is used in its place\n"
            "Take the permission to write from others (chmod go-w), or name a folder of your own as XDG_CACHE_HOME or knowledge.cache. A "
            "folder of compiled backgrounds that several users share on purpose needs knowledge.shared: true."
        ),
    ),
    ErrorCode(
        "C267",
        "Nothing, or too much, to compare",
        "`dotr kb compare` closes at most 100,000 given triples, within the limits of an instant, and needs an entailment.",
        "Configure an entailment, or fewer graphs.",
        ShownMessage("C267 there is nothing to compare: no entailment is configured\nWrite knowledge: { entailment: owl2rl }, or rdfs."),
    ),
    ErrorCode(
        "C268",
        "A list of events with a name that none has",
        "`events` of an output, or of a rule test, lists labels of events of the program, of any language; `of` of an output also names "
        "of inputs. Neither is empty.",
        "Correct the name. Without `events` and `of` an output has all events but internal ones.",
        _config("name: example\nrules: [rules.dotr]\n" + _INPUTS + "output: [{ format: ndjson, path: out.ndjson, events: [Smoke] }]\n"),
    ),
    ErrorCode(
        "C269",
        "An expectation of an event that is not compared",
        "A rule test compares the events that its `events` name; without them all but internal ones. An entry of `expect` for "
        "another event could never be met.",
        "Name the event in `events` of the case or of the file, or leave the entry out; `dotr test --update` takes it out.",
        InFiles(
            (
                (
                    "test.yaml",
                    "rules: [rules.dotr]\ncases:\n  - name: smoke\n    stream: []\n    expect: [{ at: 12, event: E }]\n",
                ),
                ("rules.dotr", RULE.replace("define E", "define internal E")),
            )
        ),
    ),
    ErrorCode(
        "C278",
        "Background knowledge that nothing reads",
        "A program without rules writes the elements of inputs as they were made. Only with `entailment: owl2rl` the background counts: "
        "an instant may contradict it.",
        "Leave `knowledge` out, or add the rules that read it.",
        InFiles(
            (
                (
                    "example.yaml",
                    "name: example\nrules: []\nknowledge: { graphs: [kb.ttl] }\n"
                    + _INPUTS
                    + "output: [{ format: ndjson, path: out.ndjson, of: [a] }]\n",
                ),
                ("kb.ttl", ""),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "C286",
        "Spark cannot read an input",
        "The table, path or source that an input by `spark` names is not there, cannot be read by this user, or has no columns that "
        "Spark finds; or a package or a catalog of it is not configured.",
        "Correct `table`, `path`, `format` or `options`; write the columns as `schema`; configure packages and catalogs under "
        "`spark: { conf: … }`.",
        ShownMessage(
            "rooms.yaml:6:5: C286 Spark cannot read bronze.readings: The table or view `bronze`.`readings` cannot be found\n"
            "Is its name right? A catalog is set by spark: { conf: { … } }."
        ),
    ),
    ErrorCode(
        "C288",
        "A replay that cannot go round",
        "With `every` the files of a replay are read again and again, each time that much later. So `every` is at least what they span "
        "together, from their least time to their greatest one, and their bytes stay those of the first round.",
        "Write a longer `every`, or leave it out; replay a copy that nobody changes.",
        ShownMessage(
            "plant.yaml:8:40: C288 the files of the replay span 23 h 59 min 58 s, and every is 12 h\n"
            "Write at least every: 23 h 59 min 58 s, or leave it out."
        ),
    ),
    ErrorCode(
        "C289",
        "The start of a replayed run is unknown",
        "An input with `replay: { start: now }` has other times in each run. `why`, `why-not`, `facts`, `report`, `replay` and `audit` "
        "ask about one run, which has printed its start.",
        "Write that start: `--start 2026-01-31T12:00:00Z`. On Spark the checkpoint keeps it, and a recording (`record`) needs none.",
        ShownMessage(
            "plant.yaml:8:40: C289 input sensors is replayed from now on, and each run has another now\n"
            "Write the start that the run printed: --start 2026-01-31T12:00:00Z; on Spark the checkpoint has it. A recording of the run "
            "(record) needs none."
        ),
    ),
    ErrorCode(
        "C290",
        "A column of a type that does not fit",
        "The columns of a DataFrame have types. A time is TIMESTAMP, TIMESTAMP_NTZ, DATE or a whole number, a graph is STRING, and a cell "
        "of a map is a value: a number, a string, a boolean, a timestamp or a date. A struct has fields (`{device.id}`), and an array "
        "items (`{tags[]}`, `{tags[0]}`). Binary values, maps, intervals and variants are no terms.",
        "Name the field or the item; or select the column with another type before.",
        ShownMessage(
            "map of readings:1:12: C290 tags is an array, and the map needs one value\n"
            "Write {tags[]} for each item, or {tags[0]} for the first."
        ),
    ),
    ErrorCode(
        "C291",
        "Batch and streaming DataFrames",
        "The streams of `events` are all streaming or all batch, since a batch ends and a stream does not. The DataFrame of a `Background` "
        "is a batch: its rows are read once, at the start.",
        "Read all of them by `spark.readStream`, or all by `spark.read`.",
        ShownMessage(
            "C291 batch and streaming DataFrames are mixed: of 2, alarms is batch\n"
            "Read all of them with spark.readStream, or all with spark.read; what does not change may be Background(df, map=…)."
        ),
    ),
    ErrorCode(
        "C295",
        "A setting of Spark, or a watermark, that streaming DataFrames cannot have",
        "`events` over streaming DataFrames keeps its state in RocksDB, the one store that Spark's `transformWithState` works with; and an "
        "instant closes once all streams have passed it, which Spark's watermark tells by its policy `min`. Spark permits one watermark a "
        "stream: one that the DataFrame has already stands for `lateness`, if it is of the column of the times.",
        "Make the setting that the message names before the query starts. Batch DataFrames need neither.",
        ShownMessage(
            "C295 spark.sql.streaming.multipleWatermarkPolicy is max: an instant would close before the slower of 2 streams has passed it\n"
            'Set it before the query starts: spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "min").'
        ),
    ),
    ErrorCode(
        "C296",
        "A checkpoint of a streaming DataFrame that does not fit",
        "State lies in the partitions of Spark's checkpoint, whose number Spark keeps, and belongs to the rules that made it. This start "
        "has another `spark.sql.shuffle.partitions`, or other rules.",
        "Set the number that the checkpoint has, and go on with the same rules; or begin with a new `checkpointLocation`.",
        ShownMessage(
            "C296 the plan is made for 8 partitions, and the query has 4\n"
            'Write spark.conf.set("spark.sql.shuffle.partitions", 4) before events(…), or begin with a new checkpointLocation.'
        ),
    ),
    ErrorCode(
        "C301",
        "There is no such file",
        "The path does not exist, or no file matches the pattern.",
        "Correct the path, which is relative to the configuration.",
        _config("name: example\nrules: [rulez.dotr]\n" + _INPUT),
    ),
    ErrorCode(
        "C302",
        "A file cannot be read or removed",
        "The file is not UTF-8, or this user has no permission.",
        "Save it as UTF-8; correct its permissions.",
        ShownMessage("C302 cannot read rules/fire.dotr: permission denied"),
    ),
    ErrorCode(
        "C303",
        "A file that `dotr check` cannot check",
        "`dotr check` checks rule files, Datalog files, configurations and rule tests.",
        "Name one of them, or a folder that holds some.",
        InFiles((("notes.txt", "To do.\n"),)),
    ),
    ErrorCode(
        "C304",
        "A file cannot be written",
        "`dotr new`, `dotr bundle` or `dotr report` cannot write there: it has no permission, or the disk is full.",
        "Choose a folder that can be written.",
        ShownMessage("C304 cannot write /dotr.zip: Permission denied\nChoose a folder that can be written."),
    ),
    ErrorCode(
        "C305",
        "The folder is in use",
        "`dotr new` writes a project into a folder that is empty or does not exist.",
        "Name another.",
        ShownMessage("C305 plant is there and not empty\nName a folder that is empty, or not there yet."),
    ),
    ErrorCode(
        "C306",
        "Another file is in the way",
        "`dotr report` replaces only an older report, and the path is a folder, or a file of another kind.",
        "Remove it, or name another file.",
        ShownMessage("C306 notes.html is there already, and is no report\nRemove it, or name another file."),
    ),
    ErrorCode(
        "C308",
        "A project cannot be made of that file",
        "`dotr new DIR --from FILE` reads the first records of a file of CSV, JSON, Parquet or text, and needs a column or member of times "
        "and at least one value.",
        "Name another file, or write the configuration by hand (docs/inputs.md).",
        ShownMessage(
            "C308 readings.csv has no column of times: sensor, value\n"
            "sensor: 'hall' is no date-time; value: 21.5 is outside of the years 1980 to 2100. "
            "Write the configuration by hand: docs/inputs.md."
        ),
    ),
    ErrorCode(
        "C319",
        "No language of rule files",
        "The extension of a file under `rules` is its language: `.dotr` (rules), `.rspql` (continuous queries), `.lars` (LARS) and "
        "`.epsparql` (EP-SPARQL).",
        "Name a file of one of them.",
        InFiles(
            (
                ("example.yaml", "name: example\nrules: [rules.swrl]\n" + _INPUT),
                ("rules.swrl", "Fire(?x) -> Alarm(?x)\n"),
                ("a.ndjson", ""),
            )
        ),
    ),
    ErrorCode(
        "C401",
        "A fallback gave the result",
        "An unforeseen error was caught, and a slower fallback has given the result: for example, queries of a joint evaluation are "
        "evaluated separately. The results are right. The first error of each place is a warning with that place; all are counted "
        "(`dotr_fallbacks_total`, `fallbacks` in `--progress json`). With DOTR_FALLBACKS=raise in the environment such an error ends "
        "the run.",
        "If the message calls it a fault of dotr's own, report it; otherwise check the file that it names.",
        ShownMessage(
            "C401 warning: a fault of dotr's own: the joint evaluation of several queries failed, and each query was evaluated separately "
            "(KeyError: 'x', dotr/instant/stage_one.py:262 in _ask)\n"
            "The results are right and took longer; further ones are only counted (fallbacks). Please report it with this line."
        ),
    ),
    ErrorCode(
        "C501",
        "A saved session cannot be restored",
        "`Program.restore` takes the bytes that `Session.save` returned, intact, from a release with the same version of that format. "
        "Integer times of the session have the unit of the program that saved it.",
        "Restore an intact copy, load the program with that unit, or begin anew with `program.session()`.",
        ShownMessage(
            "C501 the saved session cannot be restored: its times count s, those of this program ms\n"
            'Load the program with unit="s", or begin anew with program.session().'
        ),
    ),
    ErrorCode(
        "C502",
        "A package of an extra is missing",
        "`dotr.frame` makes a table of pandas, which is installed with the extra `dotr[pandas]`.",
        "Install it: `pip install 'dotr[pandas]'`.",
        ShownMessage("C502 dotr.frame needs pandas, which is not installed\nInstall it: pip install 'dotr[pandas]'"),
    ),
)
