"""The codes of inputs and outputs (I), and of Spark (S)."""

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
        "The file cannot be opened, or its compression is damaged.",
        "Is the path right, and may this user read it?",
        ShownMessage("I101 cannot read data/a.ndjson: Permission denied\nIs the input's path right, and may you read it?"),
    ),
    ErrorCode("I102", "A CSV file without a header", "The first line of a CSV file names its columns.", "Add it.", _csv("")),
    ErrorCode(
        "I103", "A column is missing", "`time` or `map` names a column that the file does not have.", "Mend the name.", _csv("at,sped\n")
    ),
    ErrorCode("I104", "Two columns of one name", "Nobody could say which is meant.", "Rename one.", _csv("at,speed,speed\n")),
    ErrorCode(
        "I105",
        "A prefix cannot be used",
        "Its IRI is none.",
        "Give the whole IRI.",
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
        "Integer times beyond the year 3000",
        "Integers count seconds unless `time` says otherwise, and the first time of the input lies beyond the year 3000 as seconds. "
        "So its integers are probably milliseconds. The run goes on with them as they are.",
        "Write `time: { unit: ms }`; `us` where they are microseconds.",
        ShownMessage(
            "I106 warning: an integer time of input a lies beyond the year 3000, as seconds: 1406879400000 (a.ndjson:1)\n"
            "If they are milliseconds, write time: { unit: ms }"
        ),
    ),
    ErrorCode(
        "I201",
        "The output is there already",
        "A run never mixes its output with an older run's.",
        "Use `--fresh` to remove it first, or another path.",
        ShownMessage(
            "I201 out/fire.ndjson is there already\n"
            "A run does not mix its output with an older one's: use --fresh to remove it first, or another path."
        ),
    ),
    ErrorCode(
        "I202",
        "The output cannot be written",
        "The folder may not be written by this user, or a file stands where a folder should. A disk that is full is no such case: the "
        "run ends with 1, and goes on once there is room.",
        "Choose a path that can be written.",
        ShownMessage("I202 cannot write out/fire.ndjson: permission denied\nChoose a path that can be written."),
    ),
)

SPARK: tuple[ErrorCode, ...] = (
    ErrorCode(
        "S101",
        "Spark cannot run here",
        "Spark needs Java 17 or later, or the packages of `dotr[spark]`. It is an error where the command line asked for Spark; else "
        "the run goes on in process.",
        "Install what is missing, or run with `--engine local`.",
        ShownMessage("S101 Spark cannot run here: there is no Java\nInstall Java 17 or later, or run with --engine local."),
    ),
    ErrorCode(
        "S102",
        "The checkpoint cannot be used",
        "It belongs to another pipeline, other inputs or a later release. A checkpoint goes on with the inputs it was made for; files may "
        "be added where an input has `watch: true`. Rules may change: `dotr plan` shows what each of them keeps. Only where a release "
        "before that made the checkpoint must the program be the same, once, so that it can be written down which state is whose. The "
        "time unit stays what it was, since all times in the checkpoint are in it.",
        "Start over with `--fresh`, or name another `spark.checkpoint`; or go back to the inputs and rules it was made for.",
        ShownMessage(
            "S102 the checkpoint out/fire/checkpoint cannot be used: it belongs to the pipeline fire, this one is smoke\n"
            "Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint."
        ),
    ),
    ErrorCode(
        "S103",
        "The checkpoint cannot be written",
        "The folder may not be written by this user, or a file stands where a folder should.",
        "Name another folder as `spark.checkpoint`.",
        ShownMessage("S103 the checkpoint /checkpoint cannot be written: Permission denied\nName another folder as spark.checkpoint."),
    ),
    ErrorCode(
        "S104",
        "The checkpoint is elsewhere",
        "Checkpoints are folders of this machine, local or mounted.",
        "Name such a folder.",
        ShownMessage("S104 the checkpoint s3://bucket/checkpoint is not a folder of this machine\nName a local or mounted folder."),
    ),
    ErrorCode(
        "S105",
        "The state in the checkpoint cannot be used",
        "It was written by another release, or is damaged.",
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
        "On Spark what comes by standard input is copied record by record, to be read again after a crash; a record of TriG needs the "
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
        "`dotr status` reads the folder in which a run on Spark keeps where it is. It is there once such a run has begun; its "
        "files must be whole.",
        "Name the folder that the configuration names as `spark.checkpoint`.",
        ShownMessage(
            "S111 there is no checkpoint at out/fire\n"
            "Name the folder that the configuration names as spark.checkpoint; it is there once a run on Spark has begun."
        ),
    ),
    ErrorCode(
        "S112",
        "The state of a checkpoint cannot be read",
        "`dotr status` reads it with Spark. It was written by another release, or the run that goes on has removed what was being read.",
        "Ask again, or leave the state out with `--quick`.",
        ShownMessage(
            "S112 the state in out/fire/checkpoint cannot be read: its version is 1, this release reads 2\n"
            "Its totals, as the run counted them, are shown with --quick."
        ),
    ),
    ErrorCode(
        "S113",
        "The workers' Python is not there",
        "Spark starts Python workers on the driver's machine as well as on the executors', by the same path: the source is planned there. "
        "A path into an archive (`--archives env.tar.gz#env` with `PYSPARK_PYTHON=./env/bin/python`) leads nowhere where the driver runs "
        "unless the environment is unpacked there too.",
        "Unpack the environment beside where you submit, under the name of the archive.",
        ShownMessage(
            "S113 the Python of Spark's workers, PYSPARK_PYTHON=./env/bin/python, is not in /home/me/pipeline\n"
            "It is a path on the driver's machine too: unpack the environment here under the same name, and submit from this folder."
        ),
    ),
    ErrorCode(
        "S114",
        "The checkpoint is damaged",
        "A file of it is empty, cut, changed or missing: after a power cut, on a disk that was full or fails, or since it was copied while "
        "a run went on. The files that a start reads are looked at before Spark does; those of the state where a query has failed. The "
        "message names the file, and, where a single file can be done without, which.",
        "Do what the message says; keep a copy of the folder until the run goes on. Else put the whole folder back from a copy, or start "
        "over with `--fresh`.",
        ShownMessage(
            "S114 the checkpoint is damaged: out/checkpoint/query/offsets/7 is empty\n"
            "Its batch is not written yet. Remove out/checkpoint/query/offsets/7 and out/checkpoint/query/offsets/.7.crc: the same command "
            "plans it again."
        ),
    ),
)
