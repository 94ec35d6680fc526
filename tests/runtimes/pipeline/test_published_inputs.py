"""Outputs that name inputs with `of`: their elements as they were made, beside events or without rules."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.instant.instants import published_firings
from dotr.model.stream import Firing, PublishedInputs
from dotr.model.time import Clock
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.connectors.mqtt.broker import MqttBroker, MqttDestination
from dotr.streams.connectors.opening import ChosenEvents, Output
from dotr.streams.formats.reading import Reader
from dotr.streams.formats.writing import StreamFormat, compile_writer, ntriples
from dotr.streams.records import Format, InputFile
from tests.conftest import Project
from tests.support.reloaded import CONFIG, change, feed, reload, run_with, set_up

INPUTS = """\
name: house
prefixes: { "": "http://e/" }
input:
  - { name: doors, format: ndjson, path: doors.ndjson, lateness: 1 s }
  - { name: rooms, format: csv, path: rooms.csv, time: at, map: ":{room} :warm {warm} ; :part [ :no {warm} ] ." }
dead_letter: dead.ndjson
engine: local
"""
DOORS = """\
{"time": 4, "graph": ":d1 :opens :r1 ."}
{"time": 4, "graph": ":d2 :opens [ :of :r2 ] ."}
{"time": 2, "graph": ":d3 :opens :r3 ."}
no element
{"time": 4, "graph": ":d1 :opens :r1 ."}
{"time": 5, "graph": ""}
"""
ROOMS = "at,room,warm\n1,r1,20\n4,r1,25\n4,r2,\n"
RULE = """\
PREFIX : <http://e/>
rule Draught define Draught = [ [] :in ?room ] from Opens = [ SELECT ?room WHERE { ?d :opens ?room } ] with Draught.?room = Opens.?room
rule Warm define Warm = [ [] :warm ?room ] from W = [ SELECT ?room WHERE { ?room :warm ?n } ] with Warm.?room = W.?room
"""
PAIRS = """\
PREFIX : <http://e/>
query Opens = [ SELECT ?room WHERE { ?d :opens ?room } ]
rule Draught define Draught = [ [] :in ?room ] from Opens and each Opens as Other within [0, 0] from Opens with Draught.?room = Opens.?room
"""


@pytest.fixture
def house(project: Project) -> Project:
    for name, text in (("doors.ndjson", DOORS), ("rooms.csv", ROOMS), ("h.dotr", RULE)):
        project.write(name, text)
    return project


def configure(house: Project, outputs: str, rules: str = "[]", changes: Mapping[str, str] | None = None) -> None:
    text = INPUTS
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    house.write("c.yaml", text + f"rules: {rules}\noutput:\n{outputs}")


def lines(path: Path) -> list[dict[str, object]]:
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def shapes(found: list[dict[str, object]]) -> list[tuple[object, int, bool]]:
    """The time, the number of triples, and whether it is an element."""
    return [(each["time"], len(str(each["graph"]).splitlines()), each.keys() == {"time", "graph"}) for each in found]


@pytest.mark.core
def test_elements_are_written_as_they_were_made_without_rules(house: Project) -> None:
    configure(house, "  - { path: out.ndjson, of: [doors, rooms] }\n")
    answer = house.dotr("run", "c.yaml")
    assert answer.code == 0, answer
    assert "7 elements, 3 instants, 0 facts, 0 events -> out.ndjson" in answer.err
    found = lines(Path("out.ndjson"))
    assert shapes(found) == [(1, 3, True), (4, 1, True), (4, 2, True), (4, 1, True), (4, 3, True), (4, 1, True), (5, 0, True)]
    assert found[1] == found[3] == {"time": 4, "graph": "<http://e/d1> <http://e/opens> <http://e/r1> ."}
    blanks = {word for each in found for word in str(each["graph"]).split() if word.startswith("_:")}
    assert len(blanks) == 4, "each element has its own blank nodes"
    assert [(each["reason"], each["line"]) for each in lines(Path("dead.ndjson"))] == [("late", 3), ("unreadable", 4)]


@pytest.mark.core
def test_elements_precede_the_events_of_their_instant(house: Project) -> None:
    configure(house, "  - { path: both.ndjson, of: [Warm, doors] }\n  - { path: events.ndjson }\n", "[h.dotr]")
    answer = house.dotr("run", "c.yaml")
    assert answer.code == 0, answer
    assert "4 events" in answer.err
    both, events = lines(Path("both.ndjson")), lines(Path("events.ndjson"))
    assert [each.get("event", "-") for each in both] == ["Warm", "-", "-", "-", "Warm", "-"]
    assert [each["event"] for each in events] == ["Warm", "Draught", "Draught", "Warm"]
    assert [each for each in both if "event" in each] == [each for each in events if each["event"] == "Warm"]


@pytest.mark.core
@pytest.mark.parametrize("form", ["ndjson", "trig", "nquads"])
def test_output_of_elements_is_an_input_with_the_same_events(house: Project, form: str) -> None:
    outputs = f"  - {{ format: {form}, path: all, of: [doors, rooms] }}\n  - {{ path: events.ndjson, of: [Draught, Warm] }}\n"
    configure(house, outputs, "[h.dotr]")
    assert house.dotr("run", "c.yaml").code == 0
    again = f"input: [{{ name: all, format: {form}, path: all }}]\noutput: [{{ path: again.ndjson }}]\n"
    house.write("again.yaml", f"name: again\nrules: [h.dotr]\nengine: local\n{again}")
    answer = house.dotr("run", "again.yaml")
    assert answer.code == 0, answer
    assert house.read("again.ndjson") == house.read("events.ndjson")


@pytest.mark.core
def test_elements_in_rdf_have_a_time_and_no_rule(house: Project) -> None:
    configure(house, "  - { format: trig, path: out.trig, of: [doors] }\n  - { format: nquads, path: out.nq, of: [doors] }\n")
    assert house.dotr("run", "c.yaml").code == 0
    for name, graphs in (("out.trig", 5), ("out.nq", 5)):
        text = house.read(name)
        assert "wasGeneratedBy" not in text
        assert text.count("generatedAtTime") == graphs - 1
        names = {line.split()[0] for line in text.splitlines() if "generatedAtTime" in line and line.startswith("<urn")}
        assert len(names) == graphs - 1, "equal elements have names of their own"


@pytest.mark.core
@pytest.mark.parametrize(
    ("outputs", "rules", "expected"),
    [
        ("path: o, of: [door]", "[]", "C268 no event and no input is called door\n"),
        ("path: o, of: [door]", "[]", "Did you mean doors?"),
        ("path: o, of: [Drought]", "[h.dotr]", "Did you mean Draught?"),
        ("path: o, of: []", "[h.dotr]", "C268 of is an empty list\n"),
        ("path: o, of: [doors, rooms, doors]", "[]", "C204 doors is named twice\n"),
        ("path: o, of: [doors], events: [Warm]", "[h.dotr]", "C204 events and of exclude each other\n"),
        ("path: o, of: [doors], format: csv", "[]", "C204 csv has a column for each attribute"),
        ("path: o.parquet, of: [doors], format: parquet", "[]", "Write format: ndjson, or one of RDF such as trig"),
        ("path: o, of: doors", "[]", "C203 output.0.of should be a list\n"),
        ("path: o", "[]", "C203 rules needs at least one entry\n"),
        ("path: o, events: [Warm]", "[]", "C203 rules needs at least one entry\n"),
        ("path: o, of: [doors] | path: p", "[]", "C204 without rules there are no events for the output\n"),
        ("kafka: { bootstrap.servers: b, topic: t, key: room }, of: [doors]", "[]", "C204 no event has an attribute room\n"),
    ],
)
def test_wrong_names_are_refused(house: Project, outputs: str, rules: str, expected: str) -> None:
    configure(house, "".join(f"  - {{ {each} }}\n" for each in outputs.split(" | ")), rules)
    for command in ("check", "run"):
        answer = house.dotr(command, "c.yaml")
        assert answer.code == 2
        assert expected in answer.err + answer.out


@pytest.mark.core
def test_name_of_a_label_and_an_input_is_refused(house: Project) -> None:
    changes = {"name: doors,": "name: Warm,"}
    configure(house, "  - { path: o, of: [Warm] }\n", "[h.dotr]", changes)
    message = house.refused("run", "c.yaml")
    assert "C204 Warm is an input, and a label of events\n" in message
    assert "c.yaml:10:21" in message
    assert "Give the input another name" in message
    configure(house, "  - { path: o.ndjson, events: [Warm] }\n", "[h.dotr]", changes)
    assert house.dotr("run", "c.yaml").code == 0
    assert {each["event"] for each in lines(Path("o.ndjson"))} == {"Warm"}


@pytest.mark.core
def test_rules_may_be_left_out(house: Project) -> None:
    configure(house, "  - { path: o, of: [doors] }\n")
    house.change("c.yaml", "rules: []\n", "")
    assert house.dotr("run", "c.yaml").code == 0
    house.change("c.yaml", "of: [doors]", "events: [Warm]")
    message = house.refused("run", "c.yaml")
    assert "C202 rules is missing\n" in message
    assert "of: [NAME]" in message


@pytest.mark.core
def test_background_that_no_rule_reads_is_told(house: Project) -> None:
    house.write("kb.ttl", "<http://e/a> a <http://e/A> .\n")
    outputs = "  - { path: o, of: [doors] }\nknowledge: { graphs: [kb.ttl] }\n"
    configure(house, outputs)
    for command in ("check", "run"):
        answer = house.dotr(command, "c.yaml")
        assert (answer.code, "C278 warning: without rules nothing reads the background knowledge" in answer.out + answer.err) == (0, True)
    configure(house, outputs + "report: { accept: [C278] }\n")
    assert "C278" not in str(house.dotr("run", "c.yaml", "--fresh"))
    configure(house, outputs, "[h.dotr]")
    assert "C278" not in str(house.dotr("check", "c.yaml"))


@pytest.mark.core
def test_rejected_instants_have_no_elements(house: Project) -> None:
    house.write("kb.ttl", "@prefix o: <http://www.w3.org/2002/07/owl#> . <http://e/opens> a o:IrreflexiveProperty .\n")
    house.write("doors.ndjson", '{"time": 1, "graph": ":d :opens :d ."}\n{"time": 2, "graph": ":d :opens :r ."}\n')
    knowledge = "knowledge: { graphs: [kb.ttl], entailment: owl2rl, inconsistent: reject }\n"
    configure(house, "  - { path: o, of: [doors, rooms] }\n" + knowledge)
    assert house.dotr("run", "c.yaml").code == 0
    assert shapes(lines(Path("o"))) == [(2, 1, True), (4, 3, True), (4, 1, True)]
    assert [(each["reason"], each["time"]) for each in lines(Path("dead.ndjson"))] == [("inconsistent", 1), ("inconsistent", 1)]


@pytest.mark.core
def test_head_and_other_commands_read_a_configuration_without_rules(house: Project) -> None:
    configure(house, "  - { path: o.ndjson, of: [doors] }\n  - { path: o.trig, format: trig, of: [rooms] }\n")
    assert house.dotr("run", "c.yaml", "--head", "2").code == 0
    assert shapes(lines(Path("o.ndjson"))) == [(4, 1, True), (4, 2, True), (4, 1, True)]
    assert house.dotr("run", "c.yaml", "--fresh").code == 0
    for command in ("explain", "audit", "facts", "plan", "replay", "report"):
        options = {"facts": ("--at", "4"), "replay": ("--set", "limits.rows=7"), "report": ("--out", "r.html")}.get(command, ())
        answer = house.dotr(command, "c.yaml", *options)
        assert answer.code == 0, (command, answer)
    answer = house.dotr("audit", "c.yaml")
    assert [line.split()[1] for line in answer.out.splitlines() if "(element)" in line] == ["4", "3"]
    house.change("o.ndjson", "d1", "d7")
    answer = house.dotr("audit", "c.yaml")
    assert answer.code == 1
    assert "2 the same, 2 missing, 2 more" in answer.out
    assert "missing: (element) at 4: <http://e/d1>" in answer.out


@pytest.mark.core
def test_ids_are_the_same_in_every_output() -> None:
    """Events count among all of their time; elements have their own numbers, and precede the events of a stream that has both."""
    elements = [Firing.of_element(4, name, number, ()) for number, name in enumerate(["a", "b", "b"])]
    events = [Firing(4, rule, rule, (), (), 0) for rule in ("Fire", "Level", "Spread")]
    everything = [*elements, *events, Firing(5, "Fire", "Fire", (), (), 0)]
    ids = {}
    for names in (["Fire", "Spread"], ["Spread"], ["b"], ["a", "b"], ["b", "Spread"], ["a", "Spread"]):
        output = Output(
            StreamFormat.NDJSON,
            MqttDestination(MqttBroker("mqtt://localhost", "out"), "t"),
            ChosenEvents(frozenset(names), ()),
        )
        choose = output.chooser()
        assert choose is not None
        blocks = [choose(everything[:2]), choose(everything[2:])]
        ids[" ".join(names)] = [(firing.event, ordinal) for block in blocks for firing, ordinal in block]  # type: ignore[misc]
    assert ids == {
        "Fire Spread": [("Fire", 0), ("Spread", 2), ("Fire", 0)],
        "Spread": [("Spread", 2)],
        "b": [("b", 1), ("b", 2)],
        "a b": [("a", 0), ("b", 1), ("b", 2)],
        "b Spread": [("b", 1), ("b", 2), ("Spread", 5)],
        "a Spread": [("a", 0), ("Spread", 3)],
    }


@pytest.mark.core
def test_numbers_do_not_depend_on_which_input_is_read_first() -> None:
    """The inputs of a run that watches a folder are read behind the files, and come by the order of the configuration."""
    published = PublishedInputs(frozenset(["a", "b"]), ("a", "c", "b"))
    graphs = [(("<http://e/a>", "<http://e/p>", f'"{number}"'),) for number in range(4)]
    one = published_firings(published, 7, ["a", "a", "b", "c"], graphs)
    other = published_firings(published, 7, ["b", "c", "a", "a"], [graphs[2], graphs[3], graphs[0], graphs[1]])
    assert one == other
    assert [(each.event, each.number, each.graph) for each in one] == [("a", 0, graphs[0]), ("a", 1, graphs[1]), ("b", 3, graphs[2])]


def test_elements_of_a_watched_folder_come_over_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reload changes rules, and neither `of` nor the labels that it names; the recording of the run gives the same."""
    monkeypatch.chdir(tmp_path)
    outputs = "output: [{ path: out, of: [Seen] }, { path: both, of: [in, Seen] }]\nrecord: run.rec"
    set_up(CONFIG.replace("output: [{ format: ndjson, path: out }]", outputs))

    def world() -> None:
        feed(1, 3)
        change("of: [in, Seen]", "of: [in]", "c.yaml")
        assert reload() == 2
        change("of: [in]", "of: [in, Seen]", "c.yaml")
        change("[r.dotr]", "[]", "c.yaml")
        assert reload() == 2
        change("rule Left", "rule Right", "r.dotr")
        change("[]", "[r.dotr]", "c.yaml")
        assert reload() == 0
        feed(3, 5)

    assert run_with(world, "local") == 0
    said = capsys.readouterr().err
    assert "C204 output has changed, and a reload reads rules, " in said
    assert "C268 no event and no input is called Seen\n" in said
    found = [(each["time"], each.get("event", "-")) for each in lines(Path("both"))]
    assert found == [(second, event) for second in range(5) for event in ("-", "Seen")]
    assert main(["run", "c.yaml", "--engine", "local", "--quiet", "--recording", "run.rec", *moved("out", "both")]) == 0
    assert Path("again/both").read_bytes() == Path("both").read_bytes()


def moved(*names: str) -> list[str]:
    """The options by which the outputs are written to another folder."""
    return [word for number, name in enumerate(names) for word in ("--set", f"output.{number}.path=again/{name}")]


def random_house(choose: random.Random, folder: Path) -> tuple[str, list[list[str]]]:
    """A configuration with random inputs and rules, and the names that each output has."""
    inputs = [f"in{number}" for number in range(choose.randrange(1, 4))]
    sections = []
    for name in inputs:
        times = sorted(choose.randrange(12) for _ in range(choose.randrange(12)))
        if choose.random() < 0.3:
            choose.shuffle(times)
        graphs = [choose.choice([":a :p 1 .", ":b :p [ :q 2 ] .", "", f":c :p {time} .", "[] :p [] .", "nonsense"]) for time in times]
        records = [json.dumps({"time": time, "graph": graph}) + "\n" for time, graph in zip(times, graphs, strict=True)]
        (folder / f"{name}.ndjson").write_text("".join(records))
        sections.append(f"  - {{ name: {name}, format: ndjson, path: {name}.ndjson, lateness: {choose.randrange(3)} s }}\n")
    labels = ["A", "B"] if choose.random() < 0.7 else []
    rules = [
        f"rule {label} define {label} = [ [] :is ?x ] from {label}Q = [ SELECT ?x ?y WHERE {{ ?x :p ?y }} ] with {label}.?x = {label}Q.?x\n"
        for label in labels
    ]
    if labels and choose.random() < 0.5:
        rules.append("rule C define C = [ [] :later ?x ] from A and last B within 4 s from A with C.?x = B.?x\n")
        labels.append("C")
    (folder / "r.dotr").write_text("PREFIX : <http://e/>\n" + "".join(rules))
    known = [*labels, *inputs]
    chosen = [known, *(choose.sample(known, choose.randrange(1, len(known) + 1)) for _ in range(2))]
    outputs = [f"  - {{ path: PATH/{number}.ndjson, of: [{', '.join(names)}] }}\n" for number, names in enumerate(chosen)]
    return (
        f'name: random\nprefixes: {{ "": "http://e/" }}\nrules: [{"r.dotr" if labels else ""}]\ninput:\n'
        + "".join(sections)
        + "output:\n"
        + "".join(outputs)
        + "dead_letter: PATH/dead\nspark: { checkpoint: PATH/checkpoint, batch: 5 }\n"
    ), chosen


def unnamed(graph: str) -> str:
    """A graph without the names of its blank nodes."""
    return re.sub(r"_:\w+", "_:b", graph)


def admitted(config: str) -> list[tuple[int, str, int, str]]:
    """The time, input, number in the input, and graph of each element that a run takes, by the rule of lateness alone."""
    found: list[tuple[int, str, int, str]] = []
    for section in read_config(config).settings.input:
        greatest = -1
        reader = Reader(InputFile(section.name, section.path, Format.NDJSON, prefixes=(("", "http://e/"),)))
        for number, record in enumerate(reader.records()):
            time = record.stamp if record.time is None else record.time
            assert time is not None
            if record.element is not None and time >= greatest - int(str(section.lateness)[0]) * 1_000_000:
                found.append((time // 1_000_000, section.name, number, unnamed(ntriples(record.element.triples))))
            greatest = max(greatest, time)
        reader.close()
    return sorted(found)


@pytest.mark.parametrize("seed", range(12))
def test_outputs_are_choices_of_the_whole_output(project: Project, seed: int) -> None:
    text, chosen = random_house(random.Random(seed), project.folder)
    project.write("c.yaml", text.replace("PATH", "local"))
    run_local(build(read_config("c.yaml", ["engine=local"]), fresh=False, on_spark=False), lambda totals: None)
    outputs = [lines(project.folder / "local" / f"{number}.ndjson") for number in range(3)]
    for names, own in zip(chosen, outputs, strict=True):
        is_last = {each["time"]: "event" in each for each in own}
        assert all(is_last[each["time"]] or "event" not in each for each in own), "elements come first"
        assert [each for each in own if "event" in each] == [each for each in outputs[0] if each.get("event") in names]
        wanted = [(time, graph) for time, name, _, graph in admitted("c.yaml") if name in names]
        assert [(each["time"], unnamed(str(each["graph"]))) for each in own if "event" not in each] == wanted


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_outputs_on_spark_are_those_in_process_without_rules(project: Project) -> None:
    """With rules they are compared in `test_chosen_events`."""
    from dotr.runtimes.spark.run import run_spark

    text = next(text for seed in range(12) if "rules: []" in (text := random_house(random.Random(seed), project.folder)[0]))
    for engine in ("local", "spark"):
        project.write("c.yaml", text.replace("PATH", engine))
        pipeline = build(read_config("c.yaml"), fresh=False, on_spark=engine == "spark")
        totals = (run_spark if engine == "spark" else run_local)(pipeline, lambda totals: None)
        assert (totals.events, totals.elements) == (0, len(lines(project.folder / engine / "0.ndjson")))
    for number in range(3):
        here, there = (lines(project.folder / engine / f"{number}.ndjson") for engine in ("local", "spark"))
        assert here == there
    assert len(lines(project.folder / "local" / "0.ndjson")) > 5


@pytest.mark.core
def test_sorted_runs_of_elements_keep_their_order(house: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instant whose firings are sorted outside of memory, with more than ten elements."""
    from dotr.runtimes.local import run

    monkeypatch.setattr(run, "RUN_SIZE", 3)
    house.write("doors.ndjson", "".join(f'{{"time": 1, "graph": ":d{number} :opens :r{number} ."}}\n' for number in range(12)))
    house.write("h.dotr", PAIRS)
    configure(house, "  - { path: o, of: [doors, Draught] }\n", "[h.dotr]")
    assert house.dotr("run", "c.yaml").code == 0
    found = lines(Path("o"))
    assert [str(each["graph"]).split()[0] for each in found if "event" not in each] == [f"<http://e/d{number}>" for number in range(12)]
    assert ["event" in each for each in found] == [False] * 12 + [True] * (len(found) - 12)
    assert len(found) == 12 + 12 * 11


@pytest.mark.core
def test_writers_name_equal_elements_apart() -> None:
    same = [Firing.of_element(4, "a", number, (("<http://e/a>", "<http://e/p>", '"1"'),)) for number in (0, 2)]
    other = Firing.of_element(4, "a", 1, ())
    [first, _, last] = compile_writer(StreamFormat.NQUADS, Clock())([same[0], other, same[1]])
    assert first.split()[0] != last.split()[0]
