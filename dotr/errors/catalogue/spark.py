"""Codes of Spark (S)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import ErrorCode, ShownMessage

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
        "A checkpoint or an output cannot be reached",
        "The store of its URL does not answer, has no such bucket, refuses these credentials, or no store has the scheme.",
        "Correct the URL, the credentials of the environment, or `storage`; then give the same command again.",
        ShownMessage(
            "S104 the checkpoint s3a://lake/fires cannot be reached: there is no bucket lake\n"
            "Is the name right, does the store run, and may this user read and write there? storage has the settings of stores."
        ),
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
        "The rules have changed so that the state moves, and the last run was interrupted between the writing of a batch to a topic, "
        "or to a stream that is served, and its completion in the checkpoint. The changed rules would compute that batch again, and it "
        "cannot be taken back from readers.",
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
    ErrorCode(
        "S160",
        "A published stream of another copy of the checkpoint",
        "The folder `serve` of a checkpoint has the kept elements of each output `serve`, the number of the next one, and the last batch. "
        "It is of another checkpoint, or its last batch is not the checkpoint's: one of the two was put back from another copy, or the "
        "output was left out of a run. To go on would give a number, or a name, a second time.",
        "Put back the folder and the checkpoint from one copy. Or remove the folder of the stream, and give the output another `base`: the "
        "stream then begins anew.",
        ShownMessage(
            "S160 the published stream in out/checkpoint/serve/0 does not belong to the checkpoint: it ends with batch 11, and the "
            "checkpoint with batch 40\n"
            "Put back out/checkpoint/serve/0 and the checkpoint from one copy; or remove out/checkpoint/serve/0: the stream then begins "
            "anew with number 0, and should have another base, since its names have been given."
        ),
    ),
    ErrorCode(
        "S161",
        "The names of a published stream are given a second time",
        "On Spark the elements and full pages of an output `serve` never change, so readers and caches may keep them. `--fresh` removes "
        "the checkpoint with the stream, which begins anew with number 0: an element may get the ID of another one. Where `base` is on "
        "loopback nothing is said.",
        "Give the output another `base` and `listen` path, so that old names keep their content.",
        ShownMessage(
            "S161 warning: --fresh gives the names of the elements at https://data.example/fire/ a second time\n"
            "Caches may keep the old ones for up to a year. Give the new stream another base, such as https://data.example/fire/2/."
        ),
    ),
    ErrorCode(
        "S165",
        "The server of an input refuses",
        "The server that an input reads from (`sse`, `websocket`, `http` with `url`) answers what a repetition would not change: a status "
        "such as 401 or 404, another content type, a redirect to another origin, a certificate that cannot be verified. At the start the "
        "command ends with 2; a run that has begun ends with 1. Lost connections, a server that is not there, and 408, 425, 429 and 5xx "
        "are tried again without end.",
        "Correct the URL, the credentials (an environment variable), or `tls.ca`.",
        ShownMessage("S165 input wiki: https://stream.example/v2/stream: it answers 404 (Not Found)\nCorrect the URL, or the credentials."),
    ),
    ErrorCode(
        "S175",
        "A table that is not there, and cannot be made",
        "An output or `dead_letter` by `spark` names a table of Spark's catalog or of a database, which is not there at the start. A run "
        "makes the table, but not its schema or its catalog, and not over files of a table that the catalog does not know, as of a "
        "catalog in memory, which ends with its session. A table of Iceberg at a `path` must be there.",
        "Correct the name; make the schema (`CREATE SCHEMA gold`); name the catalog in `spark.conf`; or write `path` in place of `table`.",
        ShownMessage(
            "S175 table gold.events is not there and cannot be made: [SCHEMA_NOT_FOUND] The schema `spark_catalog`.`gold` "
            "cannot be found.\n"
            "A run makes a table, but not its schema or catalog: CREATE SCHEMA makes the one; spark.conf has the other."
        ),
    ),
    ErrorCode(
        "S176",
        "A format of tables that Spark does not have",
        "Spark finds no sink of the `format` of an output by `spark`, or the sink finds its driver or its extension of the session not. "
        "Delta, Iceberg, Avro and drivers of databases are packages of their own, each for certain releases of Spark.",
        "Name the package as `spark.jars.packages` in `spark.conf`, with the extensions and catalogs that it asks for "
        "([connectors](connectors.md#tables)).",
        ShownMessage(
            "S176 table gold.events is of the format delta, which this Spark does not have: [DATA_SOURCE_NOT_FOUND] Failed to find the "
            "data source: delta.\n"
            "Name its package in spark.conf, as spark.jars.packages, and the extensions that it asks for (docs/connectors.md)."
        ),
    ),
    ErrorCode(
        "S177",
        "A table of another format or with other columns",
        "The table of an output by `spark` is of another format than the configuration says, or lacks a column, or has one of another "
        "type. At the start the command ends with 2; where the table changes under way, the run ends with 1.",
        "Write the table's format, add the columns, or use another table. Further columns may be there: they stay empty.",
        ShownMessage(
            "S177 table gold.events has no attributes MAP<STRING, STRING>\n"
            "A table of rows of dotr has these columns, and any others, which stay empty. Use another one, or ALTER TABLE gold.events ADD "
            "COLUMNS (attributes MAP<STRING, STRING>)."
        ),
    ),
    ErrorCode(
        "S178",
        "A table that this user may not write",
        "The catalog, the store or the database of an output by `spark` denies access. Of folders this is tried at the start, by the "
        "folder `_dotr`, which readers leave out; of tables it may show with the first batch: the run then ends with 1, and goes on at its "
        "next start.",
        "Ask for the right to read and write the table.",
        ShownMessage(
            "S178 /lake/gold/events may not be written by this user: Permission denied: user=dotr, access=WRITE\n"
            "Ask for the right to read and write it."
        ),
    ),
    ErrorCode(
        "S179",
        "A table that cannot be opened",
        "Spark, or the driver of a database, fails at the start with an error that is none of the others, which the message quotes without "
        "the values of secrets.",
        "Correct what the message names: the URL, an option, or the credentials.",
        ShownMessage("S179 table events cannot be opened: FATAL: password authentication failed for user dotr"),
    ),
    ErrorCode(
        "S180",
        "The store of a URL cannot be used",
        "At its start a run asks each bucket, and each HDFS, that the configuration names: one is not there, refuses the credentials, or "
        "does not answer within `storage.retry`. A store that fails later ends the run with 1, and the next start goes on.",
        "Correct the URL, the credentials of the environment, or `storage` ([operation.md](operation.md)); or start the store.",
        ShownMessage(
            "pipeline.yaml:4:39: S180 the store of s3a://lake/in/*.ndjson cannot be used: there is no bucket lake\n"
            "Correct the name, or make it first: a run makes none."
        ),
    ),
    ErrorCode(
        "S185",
        "Another run has taken over",
        "What is at a URL has a lease, an object that the run puts again every few seconds. A run that has not done so for half a minute, "
        "for example since it was suspended, is taken for dead by the next one, which goes on from its last batch. The earlier run ends "
        "before it writes its next batch. The message is also that of a checkpoint that has changed while a run started.",
        "Stop one of the two runs.",
        ShownMessage(
            "S185 the lease of s3a://lake/fires was taken over by another run: this run ends before its next batch\n"
            "Stop one of the two runs. Was this one suspended? The other one goes on from its last batch."
        ),
    ),
    ErrorCode(
        "S186",
        "Spark does not reach the checkpoint",
        "Spark writes its state by Hadoop's clients, which have jars and settings of their own.",
        "Name the jar of the store, for S3 `spark.jars.packages: org.apache.hadoop:hadoop-aws:3.5.0` under `spark.conf`, or give it to "
        "`spark-submit`; settings of Hadoop are `spark.hadoop.…` there.",
        ShownMessage(
            "S186 Spark has no file system for s3a://\n"
            "Name its jar, for S3 spark.jars.packages: org.apache.hadoop:hadoop-aws:3.5.0, in spark.conf, or give it to spark-submit."
        ),
    ),
    ErrorCode(
        "S190",
        "A later attempt of an application is to begin anew",
        "Where the driver of an application in cluster mode is lost, YARN starts it a second time with the same command. With "
        "`--fresh` that attempt would remove what the first one has written, and a reader of the output would lose it.",
        "Submit the job without `--fresh`: it goes on from the checkpoint. For a run that begins anew and is not repeated, set "
        "`spark.yarn.maxAppAttempts=1`.",
        ShownMessage(
            "S190 attempt 2 of this application would remove what the first one wrote\n"
            "Submit the job again without --fresh: it goes on. With --fresh set spark.yarn.maxAppAttempts=1."
        ),
    ),
    ErrorCode(
        "S191",
        "The packages of a job are unknown",
        "`dotr bundle` writes down the versions of the packages that are installed, or packs their virtual environment. It is called in a "
        "Python in which dotr is not installed, or which is no virtual environment.",
        "Call the `dotr` of a virtual environment.",
        ShownMessage(
            "S191 /usr is no virtual environment, and cannot be packed\n"
            "Make one, and call its dotr: python -m venv env && env/bin/pip install -r requirements.txt"
        ),
    ),
    ErrorCode(
        "S192",
        "The checkpoint would lie in the bundle",
        "A configuration without `spark.checkpoint` and without an output file has its checkpoint beside it. In a bundle that is the "
        "folder of a container, which ends with it.",
        "Name a folder that all machines have, or a URL, as `spark.checkpoint`.",
        ShownMessage(
            "fire.yaml:9:1: S192 the checkpoint fire-checkpoint would lie in the bundle\n"
            "Name one that the job keeps, a URL or a path on all machines: spark: { checkpoint: … }"
        ),
    ),
)
