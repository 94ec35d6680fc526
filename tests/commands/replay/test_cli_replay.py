"""`dotr replay`: the differences in the output of a changed program over the same inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import CONFIG, Project

RULES = """\
PREFIX : <http://e/>
rule Jam define Jam = [ dotr_id a :Jam ; :at ?section ; :kind ?kind ]
from Slow = [ SELECT ?section ?kind ?wait WHERE { ?r :on ?section ; :kind ?kind ; :wait ?wait FILTER(?wait > 10) } ]
with Jam.?section = Slow.?section, Jam.?kind = Slow.?kind
rule Wave define Wave = [ dotr_id a :Wave ; :at ?section ]
from Jam [ FILTER(?kind = 1) ] with Wave.?section = Jam.?section
rule Dirty define Dirty = [ dotr_id a :Dirty ; :at ?section ]
from Jam [ FILTER(?kind = 2) ] with Dirty.?section = Jam.?section
rule Quiet define Quiet = [ dotr_id a :Quiet ; :at ?section ]
from Free = [ SELECT ?section WHERE { ?r :free ?section } ] with Quiet.?section = Free.?section
"""


def stream() -> str:
    """247 waits over 10, of which 96 are over 20; 137 free sections."""
    lines = []
    for number in range(247):
        kind = 1 if number < 3 else 2 if number < 37 or number >= 244 else 0
        wait = 15 if number < 151 else 30
        graph = f"[] :on :s{number} ; :kind {kind} ; :wait {wait} . " + (f"[] :free :s{number} ." if number < 137 else "")
        lines.append(json.dumps({"time": number, "graph": graph}))
    return "\n".join(lines)


@pytest.fixture
def city(project: Project) -> Project:
    project.write("c.yaml", CONFIG)
    project.write("r.dotr", RULES)
    project.write("new.dotr", RULES.replace("?wait > 10", "?wait > 20"))
    project.write("a.ndjson", stream())
    return project


def test_differences_by_rule(city: Project) -> None:
    files = sorted(path.name for path in Path().iterdir())
    answer = city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr")
    assert answer == (
        1,
        "Jam: 247 -> 96 events, 0 new, 151 gone (--show 5: which, and why not). Wave: 3 -> 0, Dirty: 37 -> 3 (they read Jam). "
        "Quiet: the same 137.\n",
        "",
    )
    assert sorted(path.name for path in Path().iterdir()) == files


def test_no_difference(city: Project) -> None:
    city.write("same.dotr", RULES.replace("Slow", "Standing") + "# other words\n")
    answer = city.dotr("replay", "c.yaml", "--set", "rules.0=same.dotr")
    assert answer == (0, "Jam: the same 247. Wave: the same 3. Dirty: the same 37. Quiet: the same 137.\n", "")


def test_another_configuration(city: Project) -> None:
    city.write("other.yaml", CONFIG.replace("r.dotr", "new.dotr").replace("small", "another"))
    out = city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr").out
    assert city.dotr("replay", "c.yaml", "--against", "other.yaml").out == out
    assert city.dotr("replay", "other.yaml", "--against", "c.yaml").out == (
        "Jam: 96 -> 247 events, 151 new, 0 gone (--show 5: which, and why). Wave: 0 -> 3, Dirty: 3 -> 37 (they read Jam). "
        "Quiet: the same 137.\n"
    )
    city.write("again.yaml", CONFIG.replace("small", "another"))
    assert city.dotr("replay", "c.yaml", "--against", "again.yaml", "--set", "rules.0=new.dotr").out == out


def test_head_reads_the_first_elements(city: Project) -> None:
    answer = city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr", "--head", "152")
    assert answer.out == (
        "Jam: 152 -> 1 event, 0 new, 151 gone (--show 5: which, and why not). Wave: 3 -> 0, Dirty: 34 -> 0 (they read Jam). "
        "Quiet: the same 137.\n"
    )
    assert city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr", "--head", "0").code == 0


def test_rules_that_are_new_removed_renamed_and_taken_over(city: Project) -> None:
    renamed = RULES.replace("rule Wave define Wave", "rule Flood define Flood").replace("with Wave.", "with Flood.")
    city.write("new.dotr", renamed.replace("rule Dirty define Dirty", "rule Foul define Dirty").partition("rule Quiet")[0])
    answer = city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr")
    assert answer.out == (
        "Quiet: 137 -> 0 events, 0 new, 137 gone (the rule is removed; --show 5: which).\n"
        "Jam: the same 247.\n"
        "Flood (Wave before): the same 3.\n"
        "Foul (Dirty before): the same 37.\n"
    )
    assert answer.code == 1
    added = "rule Late define Late = [ [] a :Late ] from Slow2 = [ SELECT ?r WHERE { ?r :wait 30 } ]\n"
    city.write("new.dotr", RULES + added)
    assert city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr").out.splitlines()[0] == (
        "Late: 0 -> 96 events, 96 new, 0 gone (a new rule; --show 5: which, and why)."
    )
    one, rest = RULES.index("rule Jam"), RULES.index("rule Wave")
    jam = RULES[one:rest]
    text = jam.replace("?wait > 10", "?wait > 10 && ?wait <= 20") + jam.replace("rule Jam", "rule Long").replace("?wait > 10", "?wait > 20")
    city.write("new.dotr", RULES[:one] + text + RULES[rest:])
    answer = city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "Jam: 247 -> 151, the others by other rules.")


def test_shown_events_with_their_reasons(city: Project) -> None:
    city.write(
        "new.dotr", RULES.replace("?wait > 10", "?wait > 20").replace(":at ?section ]\nfrom Free", ":at ?section ; :v 1 ]\nfrom Free")
    )
    lines = city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr", "--show", "1").out.splitlines()
    assert lines[0] == (
        "Jam: 247 -> 96 events, 0 new, 151 gone. Quiet: 137 -> 137 events, 137 new, 137 gone. Wave: 3 -> 0, Dirty: 37 -> 3 (they read Jam)."
    )
    shown = lines[1:]
    assert shown[0] == "gone: Jam at 0: section :s0, kind 1"
    assert shown[1].startswith("  Jam: 0 anchors")
    assert [line for line in shown if not line.startswith("  ")] == [
        "gone: Jam at 0: section :s0, kind 1",
        "gone: Wave at 0: section :s0",
        "gone: Dirty at 3: section :s3",
        "gone: Quiet at 0: section :s0",
        "new: Quiet at 0: section :s0",
    ]
    assert shown[-2].startswith("  Quiet at 0, urn:dotr:")
    assert any("c.yaml --set rules.0=new.dotr --rule Jam" in line for line in shown)


def test_json(city: Project) -> None:
    found = json.loads(city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr", "--format", "json").out)
    assert found["differs"] is True
    assert found["rules"][1] == {
        "rule": "Wave",
        "older_name": "Wave",
        "newer_name": "Wave",
        "before": 3,
        "after": 0,
        "new": 0,
        "gone": 3,
        "reads": ["Jam"],
    }
    found = json.loads(city.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr", "--format", "json", "--show", "2").out)
    events = found["rules"][0]["events"]
    assert [each["time"] for each in events["gone"]] == [0, 1]
    assert events["gone"][0]["why_not"]["rule"] == "Jam"
    assert events["gone"][0]["attributes"] == {"kind": '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', "section": "<http://e/s0>"}
    assert events["new"] == []


def test_invalid_comparisons_are_refused(city: Project) -> None:
    assert "C224 there is nothing to compare c.yaml with" in city.refused("replay", "c.yaml")
    assert "C224 --head -1 is negative" in city.refused("replay", "c.yaml", "--against", "c.yaml", "--head", "-1")
    city.write("new.dotr", "rule")
    assert "new.dotr:1:4: D101" in city.refused("replay", "c.yaml", "--set", "rules.0=new.dotr")
    assert "is a rule test" in city.refused("replay", "t.yaml", "--against", "c.yaml")


DOORS = """\
PREFIX : <http://example.org/doors#>
query Open = [ SELECT ?door WHERE { ?o :opens ?door } ]
query Close = [ SELECT ?door WHERE { ?o :closes ?door } ]
rule Left define Left = [ dotr_id a :Left ]
from Open delayed by 10 s and not Close [ FILTER(?door = Open.?door) ] within [0, 9 s] from Open
with Left.?n = 1
"""


def test_delayed_event_is_explained_by_its_own_anchor(project: Project) -> None:
    """An anchor at 0 is due at 10, when another one, which fires later, is opened."""
    project.write("doors.dotr", DOORS)
    project.write("wider.dotr", DOORS.replace("[0, 9 s]", "[0, 20 s]"))
    texts = ["opens :c", "closes :b", "opens :a", "opens :z"]
    times = [0, 8, 10, 60]
    project.write("doors.ndjson", "".join(json.dumps({"time": t, "graph": f"[] :{e} ."}) + "\n" for t, e in zip(times, texts, strict=True)))
    project.write(
        "doors.yaml",
        'name: doors\nprefixes: { "": "http://example.org/doors#" }\nrules: [doors.dotr]\n'
        "input: [{ name: doors, format: ndjson, path: doors.ndjson }]\noutput: [{ path: out.ndjson }]\n",
    )
    project.change("wider.dotr", "not Close [ FILTER(?door = Open.?door) ]", "not Close [ FILTER(?door = Open.?door || ?door = :b) ]")
    shown = project.dotr("replay", "doors.yaml", "--set", "rules.0=wider.dotr", "--show", "2").out.splitlines()
    place = shown.index("gone: Left at 20: n 1")
    assert shown[place + 1] == "  Left: 1 anchor, 0 after not Close"
    assert shown[place + 2].startswith("    Open at 10, door :a, stands at 20: refused by 1")
