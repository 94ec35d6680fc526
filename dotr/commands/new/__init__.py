"""Command `dotr new`: a small working project as a starting point."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dotr.commands.common import Commands
from dotr.errors.diagnostics import refuse
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    new = commands.add_parser("new", help="write a small working project: configuration, rule, knowledge, data, a test")
    new.add_argument("folder", metavar="DIR", help="a folder that is empty or not there yet")
    new.add_argument("--from", dest="export", metavar="FILE", help="a file of your own (CSV, JSON, Parquet, text), which the project reads")


def execute(options: argparse.Namespace) -> int:
    """Write the project and print its files; returns the exit code."""
    paths, sentences = new_project(options.folder, options.export)
    for path in paths:
        print_stdout(path)
    if sentences:
        print_stderr("\n".join(sentences))
    print_stderr(f"A project that works. Next: cd {options.folder}; dotr run config.yaml; dotr test tests; dotr check .")
    print_stderr("Rules for twenty usual questions, to copy from: docs/recipes.md.")
    return 0


def new_project(folder: str, export: str | None = None) -> tuple[list[str], Sequence[str]]:
    """Write the project's files; returns their paths, and sentences on the guesses.

    Args:
        folder: a folder that is empty or not there yet.
        export: a file (CSV, JSON, Parquet, text) that the project reads; None for the example.

    Raises:
        Refused: the folder is not empty or not writable, or the export cannot be used.
    """
    from dotr.commands.new.from_export import SCHEMA, project_from_export
    from dotr.runtimes.pipeline.sections import schema

    target = Path(folder)
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            what = "holds files already" if target.is_dir() else "is a file"
            raise refuse("C305", f"{folder} {what}", None, "Name a folder that is empty, or not there yet.")
        name = re.sub(r"[^\w-]+", "-", target.resolve().name).strip("-") or "plant"
        files, sentences = ({**FILES, SCHEMA: schema()}, []) if export is None else project_from_export(folder, export, name)
        written = []
        for file, text in files.items():
            path = target / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("{name}", f'"{name}"') if export is None else text, encoding="utf-8")
            written.append(str(path))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise refuse("C304", f"cannot write {error.filename or folder}: {reason}", None, "Choose a folder that can be written.") from None
    return written, sentences


FILES: Final = {
    "config.yaml": """\
# yaml-language-server: $schema=.dotr/config.schema.json
# Run it: dotr run config.yaml      Check it: dotr check .      Test it: dotr test tests
name: {name}
prefixes: { "": "http://example.org/plant#" }     # for the graphs in the data and in the tests
knowledge:
  graphs: [kb/plant.ttl]          # what always holds, as RDF
  datalog: [kb/plant.dlog]        # what follows from it, and from what the stream says
rules: [rules/heating.dotr]       # what to look for; twenty usual questions: docs/recipes.md
input:
  - { name: sensors, format: ndjson, path: data/*.ndjson, lateness: 0 s }
  # by kafka, mqtt or http also `ahead: 1 d`: a time that far after the timestamp of its message is a dead letter
output:
  - { format: ndjson, path: out/alarms.ndjson }
dead_letter: out/rejected.ndjson  # what is late, or cannot be read
engine: local                     # in this process; leave it out to run on Spark
""",
    "rules/heating.dotr": """\
PREFIX : <http://example.org/plant#>

# A query that several roles share: its solutions at an instant are the readings of that instant.
query Reading = [
  SELECT ?machine ?value WHERE { ?reading a :Reading ; :of ?machine ; :value ?value } ]

rule Heating "A machine is 20 degrees hotter than at its last reading, made in the ten minutes before."
define Alarm = [ dotr_id a :Alarm ; :machine ?machine ; :before ?before ; :now ?now ]
from Reading
and last Reading as Before [ FILTER (?machine = Reading.?machine) ] within 10 min from Reading
if Reading.?value >= Before.?value + 20
with Alarm.?machine = Reading.?machine,
     Alarm.?before = Before.?value,
     Alarm.?now = Reading.?value
""",
    "kb/plant.ttl": """\
@prefix : <http://example.org/plant#> .

# Which sensor is mounted on which machine.
:s1 :mountedOn :press .
:s2 :mountedOn :press .
:s3 :mountedOn :oven .
""",
    "kb/plant.dlog": """\
@prefix : <http://example.org/plant#> .

# A reading of a sensor is a reading of the machine that the sensor is mounted on.
:of(?reading, ?machine) :- :madeBy(?reading, ?sensor), :mountedOn(?sensor, ?machine) .
""",
    "data/monday.ndjson": """\
{"time": 0, "graph": "[] a :Reading ; :madeBy :s1 ; :value 40 ."}
{"time": 60, "graph": "[] a :Reading ; :madeBy :s3 ; :value 180 ."}
{"time": 300, "graph": "[] a :Reading ; :madeBy :s2 ; :value 65 ."}
{"time": 360, "graph": "[] a :Reading ; :madeBy :s3 ; :value 190 ."}
{"time": 1200, "graph": "[] a :Reading ; :madeBy :s1 ; :value 90 ."}
""",
    "tests/heating.yaml": """\
config: ../config.yaml
cases:
  - name: 20 degrees more within ten minutes are an alarm, whichever sensor says so
    stream:
      - { at: 0, graph: "[] a :Reading ; :madeBy :s1 ; :value 40 ." }
      - { at: 300, graph: "[] a :Reading ; :madeBy :s2 ; :value 60 ." }
    expect:
      - { at: 300, event: Alarm, graph: "[] a :Alarm ; :machine :press ; :before 40 ; :now 60 ." }
  - name: another machine, or more than ten minutes before, is none
    stream:
      - { at: 0, graph: "[] a :Reading ; :madeBy :s1 ; :value 40 ." }
      - { at: 300, graph: "[] a :Reading ; :madeBy :s3 ; :value 180 ." }
      - { at: 601, graph: "[] a :Reading ; :madeBy :s2 ; :value 90 ." }
    expect: []
""",
}
