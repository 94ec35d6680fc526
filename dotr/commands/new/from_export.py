"""`dotr new DIR --from FILE`: a working project over a user's own file.

The project reads the file in place, by guesses: its first records decide, and every guess is
reported as a sentence, so that a user can correct it. Its rule compares the first numeric column
with a threshold; its test has the file's first records, and the first one for which the rule fires.
"""

from __future__ import annotations

import glob
import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, Final

from dotr.commands.new.sample import SAMPLE, Cells, Sample, samples_of
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import refuse
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.files.stores import Location
from dotr.languages.programs import compile_program
from dotr.model import dataclass
from dotr.model.places import Document
from dotr.model.stream import Element, Reason
from dotr.model.terms import WELL_KNOWN, Prefixes, Triple
from dotr.model.time import UNITS, Clock, Micros, Unit
from dotr.runtimes.pipeline.config import Config, ConfigFiles, glob_files
from dotr.runtimes.pipeline.inputs import file_of_input
from dotr.runtimes.pipeline.sections import Settings, schema, validated
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.records import Record
from dotr.streams.time_formats import time_parser
from dotr.streams.times import has_zone
from dotr.syntax.rendering import term_text, turtle_text
from dotr.syntax.yaml import read_tree

# Guesses of the time of a user's records: a cell, or a template of cells.
#
# Idea: each cell that has times is a candidate, and so is a date beside a time of day. That one is
# taken which most records have, which ascends most, and which has the finest steps, in this order.


_CLOCKS: Final = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H.%M.%S", "%I:%M:%S %p", "%I:%M %p")
_WITH_DOTS_OR_DASHES: Final = ("%Y-%m-%d", "%d.%m.%Y", "%d-%m-%Y", "%d.%m.%y", "%d-%b-%Y")
_DATES: Final = (*_WITH_DOTS_OR_DASHES, "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%Y%m%d", "%d %b %Y")
_FORMS: Final = (
    *(f"{date} {clock}" for date in _DATES for clock in _CLOCKS),
    *("%Y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%S%z", "%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y"),
    *(f"{date} %H:%M:%S{behind}" for date in _DATES for behind in (" %z", " UTC", ".%f %z", ".%f UTC")),
    *("%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S GMT", *_DATES),
)
_ACCESS: Final = "[%d/%b/%Y:%H:%M:%S"
_PARTS: Final = (
    ("", "%Y", "year|yr|jahr|année|año"),
    ("-", "%m", "month|mon|mo|monat|mois|mes"),
    ("-", "%d", "day|tag|jour|día"),
    (" ", "%H", "hour|hr|stunde|heure|hora"),
    (":", "%M", "minute|min"),
    (":", "%S", "second|sec|sekunde"),
)
_NAMED: Final = re.compile(
    r"time|date|zeit|datum|stamp|epoch|heure|fecha|hora|created|observed|changed|updated|^ts$|^at$|^t$|_at$|[a-z]At$|時|时|日期|врем|дата",
    re.IGNORECASE,
)
_EPOCH: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")
_DIGITS: Final = re.compile(r".*[0-9].*[0-9].*[0-9]")
_YEARS: Final = (315_532_800, 4_102_444_800)
"""The years 1980 and 2100 in seconds since 1970."""

_EPOCHS: Final = {"s": ("unix", 1), "ms": ("unix_ms", 1_000), "us": ("unix_us", 1_000_000), "ns": ("unix_ns", 1_000_000_000)}
"""The form of numbers since 1970 by their unit, and how many units a second has."""

_TRIED: Final = 200


@dataclass(frozen=True, slots=True)
class TimeGuess:
    """The cells of times.

    - `written`: the key `time`; several are a list.
    - `form`: the key `time_format`; None for ISO 8601 and for integers of the unit.
    - `unit`: that of integers.
    - `times`: those of the sample in µs since 1970, None where a record has none that can be read.
    - `count`: the number of records that have the cells; `rank`: 0 for dates and for numbers of a
      column that is called a time, 1 for other numbers that may be epochs, 2 for small integers.
    - `zoned`: each time has its zone, or is a number.
    """

    written: tuple[str, ...]
    form: str | None
    unit: str
    times: tuple[Micros | None, ...]
    count: int
    rank: int
    zoned: bool
    integers: bool

    @property
    def cells(self) -> frozenset[str]:
        """The cells that the time is made of."""
        return frozenset(cell for each in self.written for cell in re.findall(r"\{([^{}]*)\}", each) or [each])

    @property
    def is_around(self) -> bool:
        """True if the time is that of the whole object around the items of a list."""
        return all(each.startswith("^.") and not each.endswith("[]") for each in self.written)

    @property
    def ascent(self) -> float:
        """The share of changes that go up; where most go down, somewhat less than theirs."""
        known = [time for time in self.times if time is not None]
        ups = [after > before for before, after in pairwise(known) if after != before]
        return max(sum(ups), 0.9 * (len(ups) - sum(ups))) / max(1, len(ups))

    def described(self, others: Sequence[TimeGuess], records: int) -> Iterator[str]:
        """Sentences about the guess; `others` are those that were not taken, of so many records."""
        form = f"in the form {self.form}" if self.form else f"an integer in {self.unit}" if self.integers else "a date-time"
        also = ", ".join(f"{each.written[0]} ({each.count:,} of {records:,})" for each in others)
        yield f"The time is {' or '.join(self.written)}, {form}{also and f' (also: {also})'}."
        if not self.zoned:
            yield "Its times have no zone and are read as UTC: time_zone: Europe/Berlin, for example, changes that."
        if self.form and (order := re.search(r"%[dm]/%[dm]", self.form)):
            yield f"The {'day' if order[0].startswith('%d') else 'month'} is taken to come first."


def time_of(sample: Sample) -> TimeGuess | None:
    """The guess of the time; None where no cell has times.

    >>> cells = {"Date": ["1.3.2024", "2.3.2024"], "Time": ["08:00", "07:00"], "v": ["1", "2"]}
    >>> guess = time_of(Sample({}, cells, 2, {}, ()))
    >>> guess.written, guess.form
    (('{Date} {Time}',), '%d.%m.%Y %H:%M')
    """
    found = candidates(sample)
    rank = min(((each.is_around, each.rank) for each in found), default=None)
    found = [each for each in found if (each.is_around, each.rank) == rank]
    most = max((each.count for each in found), default=0)
    found = [each for each in found if each.count >= 0.98 * most]
    highest = max((each.ascent for each in found), default=0)
    found = [each for each in found if each.ascent >= highest - 0.1]
    best = max(found, key=lambda each: (len(set(each.times)), len(each.cells), any(map(_NAMED.search, each.cells))), default=None)
    return best and _with_others(best, candidates(sample), sample.count)


def _with_others(best: TimeGuess, found: Sequence[TimeGuess], count: int) -> TimeGuess:
    """The guess with the cells that have the time where its own cell has none: of Kubernetes'
    events eventTime or lastTimestamp."""
    for each in found:
        exclusive = all(one is None or other is None for one, other in zip(best.times, each.times, strict=True))
        if best.form is each.form is None and not (best.integers or each.integers) and exclusive and each.count and best.count < count:
            times = tuple([one if other is None else other for one, other in zip(best.times, each.times, strict=True)])
            zoned = best.zoned and each.zoned
            best = TimeGuess((*best.written, *each.written), None, "s", times, best.count + each.count, 0, zoned, integers=False)
    return best


def candidates(sample: Sample) -> list[TimeGuess]:
    """The cells, and templates of cells, that have times in at least half of the records that have
    them."""
    cells, order = sample.cells, list(sample.cells)
    names = {cell: sample.names.get(cell, cell) for cell in cells}
    texts = {cell: [str(value) for value in values if value is not None and not isinstance(value, bool)] for cell, values in cells.items()}
    found = [_of_numbers(cell, cells[cell], named=bool(_NAMED.search(names[cell]))) for cell in order]
    found = [guess or _guessed(cell, cells, _form_of(texts[cell], ("", *_FORMS))) for cell, guess in zip(order, found, strict=True)]
    clocks = {cell: _form_of(texts[cell], _CLOCKS) for cell in order}
    clocks |= {cell: "%H" for cell in order if clocks[cell] is None and re.fullmatch(_PARTS[3][2], names[cell], re.IGNORECASE)}
    for at, date in enumerate(found[: len(order)]):
        near = min((each for each in order if clocks[each]), key=lambda each: abs(order.index(each) - at), default=None)
        if date is not None and date.form in _DATES and near is not None:
            whole = "" if date.form == "%Y-%m-%d" and clocks[near] in _CLOCKS[:3] else f"{date.form} {clocks[near]}"
            found.append(_guessed(f"{{{order[at]}}} {{{near}}}", cells, whole))
    for cell, other in pairwise(order):  # [01/Mar/2024:12:00:00 +0100] of a web server's log
        if _form_of(texts[cell], [_ACCESS]):
            found.append(_guessed(f"{{{cell}}} {{{other}}}", cells, f"{_ACCESS} %z]"))
    parts = [next((each for each in order if re.fullmatch(words, names[each], re.IGNORECASE)), None) for _, _, words in _PARTS]
    given = _PARTS[: next((number for number, part in enumerate(parts) if part is None), len(parts))]
    if len(given) > 2:
        written = "".join(f"{mark}{{{part}}}" for (mark, _, _), part in zip(given, parts, strict=False))
        found.append(_guessed(written, cells, "".join(mark + form for mark, form, _ in given)))
    return [each for each in found if each and each.count and 2 * sum(time is not None for time in each.times) >= each.count]


def _of_numbers(cell: str, values: Sequence[Any], *, named: bool) -> TimeGuess | None:
    """The guess of a cell of numbers: epochs in the years 1980 to 2100, or integers of a cell that
    is called a time."""
    texts = [str(value) for value in values if value is not None]
    numbers = [text for text in texts if _EPOCH.fullmatch(text)]
    if not numbers or 2 * len(numbers) < len(texts):
        return None
    for unit, (form, factor) in _EPOCHS.items():
        if 2 * sum(_YEARS[0] * factor <= float(text) <= _YEARS[1] * factor for text in numbers) > len(texts):
            whole = unit != "ns" and all(map(_INTEGER.fullmatch, numbers))
            times = tuple([_micros(value, factor) for value in values])
            written, unit = (None, unit) if whole else (form, "s")
            return TimeGuess((cell,), written, unit, times, len(texts), 1 - named, zoned=True, integers=whole)
    if named and all(map(_INTEGER.fullmatch, numbers)) and not all(len(text) in (8, 12, 14) for text in numbers):
        times = tuple([_micros(value, 1) for value in values])
        return TimeGuess((cell,), None, "s", times, len(texts), 2, zoned=True, integers=True)
    return None


def _micros(value: Any, factor: int) -> Micros | None:
    text = str(value)
    return int(Decimal(text) * 1_000_000 // factor) if _EPOCH.fullmatch(text) and abs(float(text)) < 1e20 else None


def _form_of(texts: Sequence[str], forms: Sequence[str]) -> str | None:
    """The form of most texts, the first of several; empty for ISO 8601, None for none."""
    tried = list(dict.fromkeys(text for text in texts if _DIGITS.match(text) and len(text) < 60))[:_TRIED]
    best: tuple[int, str | None] = (0, None)
    for form in forms if 2 * len(tried) >= len(set(texts[: len(tried) + 1])) else ():
        if any(_parsed(text, form) is not None for text in tried[:5]):
            count = sum(_parsed(text, form) is not None for text in tried)
            if count == len(tried):
                return form
            best = max(best, (count, form), key=lambda each: each[0])
    return best[1]


def _parsed(text: str, form: str) -> Micros | None:
    try:
        return time_parser(form or None, None)(text, Unit.SECOND) if form or text[4:5] == "-" else None
    except ValueError:
        return None


def _guessed(written: str, cells: Cells, form: str | None) -> TimeGuess | None:
    """The guess of a cell or a template in a form; None without one."""
    if form is None:
        return None
    used = re.findall(r"\{([^{}]*)\}", written)
    rows = zip(*(cells[cell] for cell in used), strict=True) if used else [(value,) for value in cells[written]]
    blank = re.sub(r"\{[^{}]*\}", "{}", written) if used else "{}"
    texts = [None if None in row else blank.format(*row) for row in rows]
    times = tuple([None if text is None else _parsed(text, form) for text in texts])
    known = [text for text in texts if text is not None]
    zoned = all(map(has_zone, known)) if not form else any(zone in form for zone in ("%z", "UTC", "GMT"))
    return TimeGuess((written,), form or None, "s", times, len(known), 0, zoned=zoned, integers=False)


_MOST_VALUES: Final = 40
_READ: Final = 10 * SAMPLE
"""Records that are read as the configuration reads them."""

_LABEL: Final = "Reading"
_COUNTERS: Final = ("id", "index", "row", "number", "no", "nr")
SCHEMA: Final = ".dotr/config.schema.json"


_LETTERS: Final = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
"""PN_CHARS_BASE of Turtle and SPARQL, which local names and variables are made of."""

_NAME: Final = re.compile(f"[{_LETTERS}][{_LETTERS}0-9_]*")
_WORD: Final = re.compile(f"[{_LETTERS}0-9\u0300-\u036f]+")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)([.,][0-9]+)?([eE][+-]?[0-9]+)?")
_IRI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class ValueGuess:
    """A cell with its predicate's local name, and its values in the sample.

    `cell`: as it is written in the map, with its type where it needs one; `name`: the name of its
    predicate. `numbers`: the values that it takes, where most are numbers, else empty; `distinct`:
    the number of values.
    """

    cell: str
    name: str
    predicate: str
    numbers: tuple[float, ...]
    distinct: int


@dataclass(frozen=True, slots=True)
class ExportGuess:
    """Guesses of an export: the keys of its input, but `map`, and a sentence for each guess."""

    settings: Mapping[str, object]
    time: TimeGuess
    values: tuple[ValueGuess, ...]
    subject: str
    sentences: tuple[str, ...]


def project_from_export(folder: str, export: str, name: str) -> tuple[dict[str, str], list[str]]:
    """The texts of the files of a project over an export, and sentences on the guesses.

    Args:
        folder: the folder of the project.
        export: the path of a file of CSV, JSON, Parquet or text, or a glob of files of one form,
            whose names are mapped too.
        name: the name of the pipeline, which is that of the namespace too.

    Raises:
        Refused: the file cannot be read, is of another kind, or has no time.
    """
    paths = glob_files(export) if glob.has_magic(export) and not os.path.exists(export) else [export]
    guessed = guess(paths[0] if paths else export)
    if len(paths) > 1:
        own = ValueGuess("$stem", "$stem", "file", (), distinct=len(paths))
        told = f"It is the first of {len(paths)} files, whose names are mapped as :file."
        guessed = replace(guessed, values=(own, *guessed.values), sentences=(*guessed.sentences, told))
    prefixes = {"": f"http://example.org/{re.sub('[^A-Za-z0-9-]+', '-', name).strip('-') or 'data'}#"}
    values = guessed.values[:_MOST_VALUES]
    if not values:
        raise refuse("C308", f"{export} has nothing but times", None, "Name a file with values.")
    mapped = f"{guessed.subject} {' ; '.join(f':{value.predicate} {{{value.cell}}}' for value in values)} ."
    settings = {"path": os.path.relpath(export, folder), **guessed.settings, "map": mapped}
    found = _records(_config(guessed, settings, prefixes, name), folder, paths)
    records = [(path, record) for path, records in found.items() for record in records]
    elements = [record.element for _, record in records if record.element is not None]
    if not elements:
        raise refuse("C308", f"no record of {export} can be read as guessed", None, "Write the configuration by hand: docs/inputs.md.")
    numeric = [value for value in values if value.numbers]
    varied = [value for value in numeric if len(set(value.numbers)) > 1]
    watched = next((value for value in varied if value.predicate.lower() not in _COUNTERS), next(iter((*varied, *numeric, *values))))
    rule_name = ("High" if watched.numbers else "Has") + watched.predicate[:1].upper() + watched.predicate[1:]
    rule = _rule(guessed, watched, rule_name, values, prefixes)
    unit = UNITS[guessed.time.unit]
    program = compile_program(ProgramSpec((Document("rules.dotr", rule),), prefixes=prefixes, unit=unit))
    clock = Clock(unit, not guessed.time.integers)
    behind = 0  # in a file that is an input of its own
    for each in found.values():
        times = [record.judged_time for record in each if record.judged_time is not None]
        behind = max([behind, *(latest - time for latest, time in zip(accumulate(times, max), times, strict=True))])
    lateness = {"lateness": f"{-(-behind // 1_000_000)} s"} if behind else {}
    files = {
        "config.yaml": _config(guessed, settings | lateness, prefixes, name),
        f"rules/{rule_name}.dotr": rule,
        f"tests/{rule_name}.yaml": _test(program, elements[:SAMPLE], clock, prefixes, rule_name),
        SCHEMA: schema(),
    }
    sentences = list(guessed.sentences)
    if behind:
        sentences.append(f"Records are not in the order of time: the latest comes {behind / 1_000_000:g} s behind (lateness).")
    broken = [
        f"{path}:{record.line}: {record.why}" for path, record in records if record.element is None and record.reason is not Reason.EMPTY
    ]
    if broken:
        sentences.append(
            f"{len(broken):,} of the first {len(records):,} records cannot be read and become dead letters (first: {broken[0]})."
        )
    condition = f"{watched.predicate} is above {_threshold(watched)}" if watched.numbers else f"{watched.predicate} is there"
    return files, [*sentences, f"The rule {rule_name} fires where {condition}."]


def _records(config: str, folder: str, paths: Sequence[str]) -> dict[str, list[Record]]:
    """The first records of each file of an export, as the configuration reads them."""
    tree = read_tree(Document(os.path.join(folder, "config.yaml"), config))
    settings = validated(Settings, tree.data, tree)
    read = Config(settings, ConfigFiles(tree, Location.of(str(folder))))
    found: dict[str, list[Record]] = {}
    for path in paths:
        file = file_of_input(read, settings.input[0].name, path)
        assert file is not None
        check_input(file)
        with Reader(file) as reader:
            found[path] = list(islice(reader.records(), _READ // len(paths) + 1))
    return found


def _input_name(export: str) -> str:
    return re.sub(r"[^\w-]+", "-", Path(export).name.partition(".")[0]).strip("-") or "data"


def _threshold(value: ValueGuess) -> str:
    """A bound that about a tenth of the sample exceeds, but at least one value unless all are
    equal.

    >>> _threshold(ValueGuess("v", "v", "v", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 10))
    '9'
    """
    numbers = sorted(value.numbers)
    chosen = numbers[int(len(numbers) * 0.9) - 1] if len(numbers) > 1 else numbers[0] - 1
    if chosen == numbers[-1]:
        chosen = max([number for number in numbers if number < chosen], default=chosen - 1)
    return f"{chosen:.10g}"


def _rule(guessed: ExportGuess, watched: ValueGuess, name: str, values: Sequence[ValueGuess], prefixes: Prefixes) -> str:
    key = next((value for value in values if not value.numbers and value is not watched and value.distinct > 1), None)
    shown = [watched, *([key] if key else [])]
    variables = [value.predicate for value in shown]
    subject = guessed.subject != "[]"
    own_name = next(each for each in ("thing" if subject else "row", "record", "element") if each not in variables)
    patterns = " ; ".join(f":{variable} ?{variable}" for variable in variables)
    own = [own_name, *variables] if subject else variables
    properties = " ; ".join(f":{variable} ?{variable}" for variable in own)
    assignments = ",\n     ".join(f"{name}.?{variable} = {_LABEL}.?{variable}" for variable in own)
    condition = f" [ FILTER(?{watched.predicate} > {_threshold(watched)}) ]" if watched.numbers else ""
    words = f"{watched.name} is above {_threshold(watched)}." if watched.numbers else f"{watched.name} is there."
    words = " ".join(re.sub(r'["\\]', "'", words).split())
    declared = "".join(f"PREFIX {prefix}: <{iri}>\n" for prefix, iri in prefixes.items())
    return f"""{declared}
query {_LABEL} = [ SELECT {" ".join(f"?{variable}" for variable in own)} WHERE {{ ?{own_name} {patterns} }} ]

rule {name} "{words}"
define {name} = [ dotr_id a :{name} ; {properties} ]
from {_LABEL}{condition}
with {assignments}
"""


def _config(guessed: ExportGuess, settings: Mapping[str, object], prefixes: Prefixes, name: str) -> str:
    lines = "".join(f"    {key}: {_yaml(value)}\n" for key, value in settings.items() if value is not None)
    zone = "" if guessed.time.zoned else "    # time_zone: Europe/Berlin        # of the times, which have none; else they are UTC\n"
    unit = f"time: {{ unit: {guessed.time.unit} }}\n" if guessed.time.unit != "s" else ""
    return f"""# yaml-language-server: $schema={SCHEMA}
# Run it: dotr run config.yaml      Check it: dotr check .      Test it: dotr test tests
name: {_yaml(name)}
prefixes: {{ {", ".join(f"{_yaml(prefix)}: {_yaml(iri)}" for prefix, iri in prefixes.items())} }}
{unit}rules: [rules/*.dotr]   # twenty usual questions: docs/recipes.md
input:
  - name: {_yaml(_input_name(str(settings["path"])))}
{lines}{zone}output:
  - {{ format: ndjson, path: out/events.ndjson }}
dead_letter: out/rejected.ndjson  # what is late, or cannot be read
engine: local                     # in this process; leave it out to run on Spark
"""


def _yaml(value: object) -> str:
    """A text in double quotes, a number or a list, as YAML and JSON have it.

    >>> print(_yaml('a "b"'))
    "a \\"b\\""
    """
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


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
events: [{rule_name}]             # those of other rules are not compared
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


# --- guesses ---


def guess(path: str) -> ExportGuess:
    """The guesses about a file; raises `Refused` for one that cannot be read or has no time."""
    samples = samples_of(path)
    sample, time = _chosen(path, samples)
    values = {cell: column for cell, column in sample.cells.items() if cell not in time.cells or cell == "$value"}
    subject = "[]"
    for cell in ("id", "@id", '"@id"'):
        texts = [value for value in values.get(cell, ()) if value is not None]
        if sample.settings["format"] == "json" and texts and all(isinstance(text, str) and _IRI.fullmatch(text) for text in texts):
            subject = f"<{{{cell}}}>"
            del values[cell]
    others = [each for each in candidates(sample) if not each.cells & time.cells]
    sentences = [*sample.sentences, *time.described(others, sample.count)]
    lists = [str(each.settings["each"]) for each in samples if "each" in each.settings and each is not sample]
    read = str(sample.settings.get("each", ""))
    if left_out := [each for each in lists if not read.startswith(each) and "," not in each]:
        sentences.append(f"Lists that are left out: {', '.join(left_out[:_SHOWN])}.")
    settings = {**sample.settings, "time": time.written[0] if len(time.written) == 1 else list(time.written), "time_format": time.form}
    return ExportGuess(settings, time, tuple(_values(values, sample)), subject, tuple(sentences))


def _chosen(path: str, samples: list[Sample]) -> tuple[Sample, TimeGuess]:
    """The sample that has times, and its time: of a file of many objects the first list with numbers
    that all of them have, else the objects; of one object the first list whose items have times."""
    found = [(sample, time) for sample in samples if (time := time_of(sample))]
    timed = [each for each in found if 2 * each[1].count >= each[0].count]
    whole = [each for each in timed if "each" not in each[0].settings]
    items = [each for each in timed if "each" in each[0].settings and not each[1].is_around]
    around = [each for each in timed if each[1].is_around and each[0].count > 1]
    inner = [each for each in (*items, *around) if each[0].in_all and _has_numbers(*each)]
    for chosen in (inner, whole, items, around) if samples[0].count > 1 else (items, around, whole):
        if chosen:
            return chosen[0]
    if found:  # few records have a time
        return max(found, key=lambda each: each[1].count)
    sample = samples[0]
    names = {cell: sample.names.get(cell, cell) for cell in sample.cells}
    if sample.settings["format"] == "text":
        hint = "A line of text is one value, without a time beside it; messages have one ($timestamp, $received): docs/inputs.md."
        raise refuse("C308", f"{path} has no rows of several columns", None, hint)
    reasons = [f"{names[cell]}: {_reason(column)}" for cell, column in list(sample.cells.items())[:_SHOWN]]
    shown = ", ".join(list(names.values())[:_SHOWN])
    hint = f"{'; '.join(reasons)}. Write the configuration by hand: docs/inputs.md."
    if sample.settings["format"] in ("csv", "json"):
        hint += f"\nIf its rows hold at every instant, it is background:\n{_background(path, sample)}"
    raise refuse("C308", f"{path} has no column of times: {shown}", None, hint)


def _background(path: str, sample: Sample) -> str:
    """The lines of a configuration by which a table is background, with a guess of its map.

    The first cell that all rows have, each its own, is the subject.
    """
    subject, cells = "[]", dict(sample.cells)
    for cell, column in sample.cells.items():
        if None not in column and len(set(map(str, column))) == len(column) and not cell.endswith("[]"):
            subject = f":{{{cell}}}"
            del cells[cell]
            break
    properties = " ; ".join(f":{value.predicate} {{{value.cell}}}" for value in _values(cells, sample)[:_MOST_VALUES]) or "a :Row"
    settings = {"path": path, **sample.settings, "map": f"{subject} {properties} ."}
    lines = "".join(f"\n      {key}: {_yaml(value)}" for key, value in settings.items()).replace("\n      path", "path", 1)
    return f'prefixes: {{ "": "http://example.org/#" }}\nknowledge:\n  tables:\n    - {lines}'


def _has_numbers(sample: Sample, time: TimeGuess) -> bool:
    """True if a cell of the items themselves has numbers in most of them."""
    own = [column for cell, column in sample.cells.items() if cell not in time.cells and not cell.startswith("^.")]
    return any(2 * sum(value is not None and _number(value, comma=False) is not None for value in column) > sample.count for column in own)


def _reason(column: list[Any]) -> str:
    """The reason why a cell is no time."""
    texts = [str(value) for value in column if value is not None]
    if not texts:
        return "it is empty"
    shown = texts[0] if len(texts[0]) <= 40 else f"{texts[0][:40]}…"
    return f"{shown} is outside of the years 1980 to 2100" if _NUMBER.fullmatch(texts[0]) else f"{shown!r} is no date-time"


def _values(columns: Mapping[str, list[Any]], sample: Sample) -> list[ValueGuess]:
    """The cells with values, each with a local name of its own and the type of its values. Numbers
    of JSON and Parquet need none."""
    values: list[ValueGuess] = []
    predicates: dict[str, None] = {}
    comma = sample.settings.get("decimal") == ","
    for cell, column in columns.items():
        found = [value for value in column if value is not None]
        if not found:
            continue
        name = sample.names.get(cell, cell)
        base = predicate = local_name(name)
        count = 1
        while predicate in predicates:
            count += 1
            predicate = f"{base}{count}"
        predicates[predicate] = None
        if cell.endswith("[]") and not cell.startswith("^."):  # of a list each item is a value, and none is the record's
            values.append(ValueGuess(cell, name, predicate, (), distinct=1))
            continue
        numbers = [_number(value, comma=comma) for value in found]
        known = [number for number in numbers if number is not None]
        numeric = 2 * len(known) >= len(found) and bool(known)
        is_json_text = sample.settings["format"] == "json" and any(value.__class__ is str for value in found)
        typed = numeric and (len(known) < len(found) or is_json_text or sample.settings["format"] == "csv")
        if typed:
            lexical = [str(value) for value, number in zip(found, numbers, strict=True) if number is not None]
            kind = "double" if any("e" in text.lower() for text in lexical) else "decimal"
            cell = f"{cell}:{kind}{'?' * (len(known) < len(found))}"
        values.append(ValueGuess(cell, name, predicate, tuple(known) if numeric else (), len(set(map(str, found)))))
    return values


def _number(value: Any, *, comma: bool) -> float | None:
    found = None if isinstance(value, bool) else _NUMBER.fullmatch(value)
    if found is None or (found[1] and found[1].startswith(",") != comma):
        return None
    return float(value.replace(",", "."))


def local_name(name: str) -> str:
    """The local name of a predicate for a column or path, which is that of a variable, too.

    >>> local_name("Température"), local_name("温度"), local_name("2nd")
    ('Température', '温度', 'n2nd')
    >>> local_name("Avg Speed (km/h)"), local_name("temperature.value")
    ('avgSpeedKmH', 'temperatureValue')
    """
    name = unicodedata.normalize("NFC", name)
    if _NAME.fullmatch(name):
        return name
    words = _WORD.findall(name)
    joined = "".join(word if not number else word[:1].upper() + word[1:] for number, word in enumerate(words)) or "value"
    joined = joined if joined[:2].isupper() else joined[:1].lower() + joined[1:]
    return joined if _NAME.match(joined) else f"n{joined}"
