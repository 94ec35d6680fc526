"""`dotr new DIR --from FILE`: a working project over a user's own CSV or JSON file.

The project reads the file in place. Its rule compares the first numeric column with a threshold;
its test has the file's first records, and the first one for which the rule fires.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from dotr.commands.new.export_guess import SAMPLE, ExportGuess, ValueGuess, guess
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import refuse
from dotr.evaluation.expressions.values.times import format_time
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.terms import WELL_KNOWN, Prefixes, Triple
from dotr.model.time import UNITS, Clock, Micros
from dotr.runtimes.pipeline.sections import schema
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.records import ElementMap, Format, InputFile
from dotr.syntax.rendering import term_text, turtle_text

_MOST_VALUES: Final = 40
_LABEL: Final = "Reading"
_SCHEMA: Final = ".dotr/config.schema.json"


@dataclass(frozen=True, slots=True)
class ExportProject:
    """The texts of a project's files by name, and sentences on the guesses."""

    files: Mapping[str, str]
    sentences: Sequence[str]


def project_from_export(folder: str, export: str, name: str) -> ExportProject:
    """A project over an export.

    Args:
        folder: the folder of the project.
        export: the path of a CSV or JSON file.
        name: the name of the pipeline, which is that of the namespace too.

    Raises:
        Refused: the file cannot be read, is neither CSV nor JSON, or has no time.
    """
    guessed = guess(export)
    prefixes = {"": f"http://example.org/{re.sub('[^A-Za-z0-9-]+', '-', name).strip('-') or 'data'}#"}
    values = guessed.values[:_MOST_VALUES]
    if not values:
        raise refuse("C308", f"{export} has nothing but times", None, "Name a file with values.")
    mapped = f"{guessed.subject} {' ; '.join(f':{value.predicate} {{{value.name}}}' for value in values)} ."
    file = InputFile(
        _input_name(export),
        export,
        Format(guessed.format),
        UNITS[guessed.time.unit],
        prefixes=tuple(prefixes.items()),
        map=ElementMap(
            guessed.time.name,
            Document("map", mapped),
            guessed.delimiter,
            guessed.time.form,
            None,
            guessed.decimal,
            guessed.encoding,
            guessed.each,
        ),
    )
    check_input(file)
    with Reader(file) as reader:
        elements = [record.element for record in islice(reader.records(), SAMPLE) if record.element is not None]
    if not elements:
        raise refuse("C308", f"no record of {export} can be read as guessed", None, "Write the configuration by hand: docs/inputs.md.")
    watched = next((value for value in values if value.numeric and len(set(value.numbers)) > 1), None)
    watched = watched or next((value for value in values if value.numeric), values[0])
    rule_name = ("High" if watched.numeric else "Has") + watched.predicate[:1].upper() + watched.predicate[1:]
    rule = _rule(guessed, watched, rule_name, values, prefixes)
    unit = UNITS[guessed.time.unit]
    program = compile_program(ProgramSpec((Document("rules.dotr", rule),), prefixes=prefixes, unit=unit))
    clock = Clock(unit, not guessed.time.integers)
    files = {
        "config.yaml": _config(guessed, file, prefixes, name, os.path.relpath(export, folder), mapped),
        f"rules/{rule_name}.dotr": rule,
        f"tests/{rule_name}.yaml": _test(program, elements, clock, prefixes, rule_name),
        _SCHEMA: schema(),
    }
    condition = f"{watched.predicate} is above {_threshold(watched)}" if watched.numeric else f"{watched.predicate} is there"
    return ExportProject(files, (*guessed.sentences, f"The rule {rule_name} fires where {condition}."))


def _input_name(export: str) -> str:
    return re.sub(r"[^\w-]+", "-", Path(export).name.partition(".")[0]).strip("-") or "data"


def _threshold(value: ValueGuess) -> str:
    """A bound that about a tenth of the sample exceeds, but at least one value unless all are
    equal.

    >>> _threshold(ValueGuess("v", "v", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), True, 10))
    '9'
    """
    numbers = sorted(value.numbers)
    chosen = numbers[int(len(numbers) * 0.9) - 1] if len(numbers) > 1 else numbers[0] - 1
    if chosen == numbers[-1]:
        chosen = max([number for number in numbers if number < chosen], default=chosen - 1)
    return f"{chosen:.10g}"


def _rule(guessed: ExportGuess, watched: ValueGuess, name: str, values: Sequence[ValueGuess], prefixes: Prefixes) -> str:
    key = next((value for value in values if not value.numeric and value is not watched and value.distinct > 1), None)
    shown = [watched, *([key] if key else [])]
    variables = [value.predicate for value in shown]
    subject = guessed.subject != "[]"
    patterns = " ; ".join(f":{variable} ?{variable}" for variable in variables)
    own = ["thing", *variables] if subject else variables
    node = "?thing" if subject else "?row"
    properties = " ; ".join(f":{variable} ?{variable}" for variable in own)
    assignments = ",\n     ".join(f"{name}.?{variable} = {_LABEL}.?{variable}" for variable in own)
    condition = f" [ FILTER(?{watched.predicate} > {_threshold(watched)}) ]" if watched.numeric else ""
    words = f"{watched.name} is above {_threshold(watched)}." if watched.numeric else f"{watched.name} is there."
    declared = "".join(f"PREFIX {prefix}: <{iri}>\n" for prefix, iri in prefixes.items())
    return f"""{declared}
query {_LABEL} = [ SELECT {" ".join(f"?{variable}" for variable in own)} WHERE {{ {node} {patterns} }} ]

rule {name} "{words.replace('"', "'")}"
define {name} = [ dotr_id a :{name} ; {properties} ]
from {_LABEL}{condition}
with {assignments}
"""


def _config(guessed: ExportGuess, file: InputFile, prefixes: Prefixes, name: str, export: str, mapped: str) -> str:
    settings = {
        "path": export,
        "time": guessed.time.name,
        "time_format": guessed.time.form,
        "each": guessed.each or None,
        "delimiter": guessed.delimiter if guessed.delimiter != "," else None,
        "decimal": guessed.decimal if guessed.decimal != "." else None,
        "encoding": guessed.encoding if guessed.encoding != "utf-8" else None,
        "lateness": f"{-(-guessed.time.lateness // 1_000_000)} s" if guessed.time.lateness else None,
        "map": mapped,
    }
    lines = "".join(f"    {key}: {_yaml(value)}\n" for key, value in settings.items() if value is not None)
    zone = "" if guessed.time.zoned else "    # time_zone: Europe/Berlin        # of the times, which have none; else they are UTC\n"
    unit = f"time: {{ unit: {guessed.time.unit} }}\n" if guessed.time.unit != "s" else ""
    return f"""# yaml-language-server: $schema={_SCHEMA}
# Run it: dotr run config.yaml      Check it: dotr check .      Test it: dotr test tests
name: {_yaml(name)}
prefixes: {{ {", ".join(f"{_yaml(prefix)}: {_yaml(iri)}" for prefix, iri in prefixes.items())} }}
{unit}rules: [rules/*.dotr]
input:
  - name: {_yaml(file.input)}
    format: {guessed.format}
{lines}{zone}output:
  - {{ format: ndjson, path: out/events.ndjson }}
dead_letter: out/rejected.ndjson  # what is late, or cannot be read
engine: local                     # in this process; leave it out to run on Spark
"""


def _yaml(text: str) -> str:
    """A text in double quotes, as YAML and JSON have it.

    >>> print(_yaml('a "b"'))
    "a \\"b\\""
    """
    return json.dumps(text, ensure_ascii=False)


def _test(program: CompiledProgram, elements: Sequence[Element], clock: Clock, prefixes: Prefixes, rule_name: str) -> str:
    engine = Engine(program, clock)
    fires = next((element for number, element in enumerate(elements) if engine.step(number, [element.triples])[0]), None)
    chosen = list(elements[:2])
    if fires is not None and fires not in chosen:
        chosen.append(fires)
    by_time: dict[Micros, list[tuple[Triple, ...]]] = {}
    for element in chosen:
        by_time.setdefault(element.time, []).append(element.triples)
    graphs = [(element.time, turtle_text(element.triples, prefixes)) for element in chosen]
    stream = [f"      - {{ at: {_time(time, clock)}, graph: {_yaml(graph)} }}" for time, graph in graphs]
    return f"""config: ../config.yaml
cases:
  - name: the first records of the file
    stream:
{chr(10).join(stream)}
    expect:{_expected(program, by_time, clock, prefixes, rule_name)}
"""


def _expected(
    program: CompiledProgram, by_time: Mapping[Micros, Sequence[tuple[Triple, ...]]], clock: Clock, prefixes: Prefixes, rule_name: str
) -> str:
    terms = {**prefixes, "xsd": WELL_KNOWN["xsd"]}
    engine, lines = Engine(program, clock), list[str]()
    for time in sorted(by_time):
        for firing in engine.step(time, by_time[time])[0]:
            attributes = ", ".join(f"{name}: {_yaml(term_text(term, terms))}" for name, term in firing.attributes)
            lines.append(f"      - {{ at: {_time(time, clock)}, event: {rule_name}, attributes: {{ {attributes} }} }}")
    return "\n" + "\n".join(lines) if lines else " []"


def _time(time: Micros, clock: Clock) -> str:
    return json.dumps(format_time(time, clock))
