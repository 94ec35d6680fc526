"""Replay of a configuration's inputs: instants with places, rejected elements, inputs that grow."""

from __future__ import annotations

import pytest

from dotr.commands.why.questions import open_replays
from dotr.engine.replay import ElementPlace, InputProgress, RejectedElement
from dotr.errors.diagnostics import Refused
from dotr.runtimes.spark.checkpoint.message_spool import MessageSpool
from dotr.streams.connectors.receivers import deliver
from dotr.streams.records import Format, InputFile, Message
from tests.conftest import Project

pytestmark = pytest.mark.core


def test_instants_have_places_and_can_be_replayed_again(project: Project) -> None:
    project.write("b.ndjson", '{"time": 1, "graph": ":b a :A ."}\n{"time": 3, "graph": ""}\n')
    project.write("c.yaml", project.read("c.yaml").replace("path: a.ndjson", 'path: "[ab].ndjson"'))
    [replay] = open_replays("c.yaml")
    seen = [(each.time, [str(place) for place in each.places]) for each in replay.instants()]
    assert seen == [(1_000_000, ["a.ndjson:1", "b.ndjson:1"]), (3_000_000, ["b.ndjson:2"])]
    assert [each.time for each in replay.instants()] == [1_000_000, 3_000_000]
    assert replay.ended


def test_late_element_is_rejected_with_its_triples(project: Project) -> None:
    project.write("a.ndjson", '{"time": 5, "graph": ""}\n{"time": 4, "graph": ":b a :A ."}\nbroken\n')
    [replay] = open_replays("c.yaml")
    rejected: list[RejectedElement] = []
    assert len(list(replay.instants(rejected.append))) == 1
    late, broken = rejected
    assert (late.dead_letter.line, late.triples is not None and late.triples[0][0]) == (2, "<http://e/b>")
    assert (broken.dead_letter.line, broken.triples) == (3, None)


def test_growing_inputs_bound_the_closed_instants(project: Project) -> None:
    growing = "{ name: a, format: ndjson, path: 'a*.ndjson', watch: true }"
    both = growing + "\n  - " + growing.replace("name: a", "name: b").replace("'a*", "'b*")
    project.write("c.yaml", project.read("c.yaml").replace("{ name: a, format: ndjson, path: a.ndjson }", both))
    project.write("a.ndjson", '{"time": 1, "graph": ""}\n{"time": 9, "graph": ""}\n')
    project.write("b.ndjson", '{"time": 2, "graph": ""}\n{"time": 5, "graph": ""}\n')
    [replay] = open_replays("c.yaml")
    assert [each.time // 1_000_000 for each in replay.instants()] == [1, 2]
    assert not replay.ended
    assert sorted(replay.progress(), key=lambda each: each.name) == [
        InputProgress("a", 8_999_999, False),
        InputProgress("b", 4_999_999, False),
    ]


def test_standard_input_without_a_copy_is_refused(project: Project) -> None:
    project.write("c.yaml", project.read("c.yaml").replace("path: a.ndjson", "path: '-'"))
    with pytest.raises(Refused, match=r"C217 standard input cannot be replayed: no checkpoint has a copy of it"):
        open_replays("c.yaml")


def test_cases_have_the_lines_of_their_entries(project: Project) -> None:
    [replay] = open_replays("t.yaml", "one")
    assert [each.places for each in replay.instants()] == [[ElementPlace("t.yaml", 5)]]
    assert (replay.case, open_replays("t.yaml", "1")[0].case) == ("one", "one")
    with pytest.raises(Refused, match="Did you mean one"):
        open_replays("t.yaml", "on")


def test_standard_input_is_read_from_its_copy_in_the_checkpoint(project: Project) -> None:
    standard = project.read("c.yaml").replace("path: a.ndjson", "path: '-'")
    project.write("c.yaml", standard + "spark: { checkpoint: cp }\n")
    (project.folder / "cp" / "spool").mkdir(parents=True)
    project.write("cp/spool/000000000000-000000000001-000000000003", '{"time": 1, "graph": ""}\n{"time": 2, "graph": ""}\n')
    project.write("cp/spool/000000000001-000000000003-000000000004", '{"time": 4, "graph": ""}\n')
    [replay] = open_replays("c.yaml")
    seen = [(each.time // 1_000_000, *map(str, each.places)) for each in replay.instants()]
    assert seen == [(1, "-:1"), (2, "-:2")]  # the instant 4 is still open
    project.write("cp/spool/end", "")
    [ended] = open_replays("c.yaml")
    assert [each.time // 1_000_000 for each in ended.instants()] == [1, 2, 4]
    (project.folder / "cp" / "spool" / "000000000000-000000000001-000000000003").unlink()
    with pytest.raises(Refused, match="its beginning is no longer in the checkpoint"):
        open_replays("c.yaml")


def test_received_messages_are_read_from_their_copy_in_the_checkpoint(project: Project) -> None:
    http = project.read("c.yaml").replace("path: a.ndjson", "http: { listen: 8081 }") + "spark: { checkpoint: cp }\n"
    project.write("c.yaml", http)
    with pytest.raises(Refused, match=r"C217 the messages of input a cannot be replayed: no checkpoint has a copy of them"):
        open_replays("c.yaml")
    folder = project.folder / "cp/spool/of-a"
    for numbers in ((1, 2), (4,)):
        spool = MessageSpool(InputFile("a", "", Format.NDJSON), folder, 1 << 30)
        for at in numbers:
            assert deliver(spool, [Message(b'{"time": %d, "graph": ""}' % at, 0)], 10)
        spool.close()
    [replay] = open_replays("c.yaml")
    seen = [(each.time // 1_000_000, *map(str, each.places)) for each in replay.instants()]
    assert seen == [(1, "http://127.0.0.1:8081/:1"), (2, "http://127.0.0.1:8081/:2")]  # the instant 4 is still open
    (folder / "000000000000-000000000001.messages").unlink()
    with pytest.raises(Refused, match="their beginning is no longer in the checkpoint"):
        open_replays("c.yaml")
