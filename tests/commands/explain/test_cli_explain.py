"""`dotr explain` and `dotr new`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from xml.dom import minidom

import pytest

from dotr.commands.new import FILES
from dotr.commands.new.from_export import SCHEMA
from tests.conftest import CONFIG, TEST, Project
from tests.support.paths import ROOT


def explained(project: Project, path: str | Path, *options: str) -> str:
    answer = project.dotr("explain", str(path), *options)
    assert (answer.code, answer.err) == (0, "")
    return answer.out


def test_rule_r_is_explained(project: Project) -> None:
    text = explained(project, ROOT / "configs/fire.yaml")
    assert "Background: 3 triples, and 0 derived from them once; entailment none; 1 Datalog rule." in text
    assert "Query 1: Smoke of R\n  asked      from what the instant brings\n  wakes on   a :Smoke\n  Datalog    " in text
    assert text[text.index("Rule R") :] == (
        'Rule R -> Fire: "Smoke in a room within five minutes after a high temperature there is a fire."\n'
        "  from Smoke (query 1)\n"
        "  last HighTemp (query 2) within (0, 5 min] from Smoke\n"
        "    where    ?room2 = Smoke.?room1\n"
        "  with       Fire.?room = Smoke.?room1\n"
        "  consuming  HighTemp: the event of a match is used up for this rule\n"
        "  partition  by the value of Smoke.?room1 = HighTemp.?room2: equalities tie every clause to the anchor\n"
        "  layer      0: it reads no events of rules\n"
        "  state      HighTemp: ?read2, ?room2: kept 5 min\n"
    )


def test_layers_stages_and_replicated_clauses_are_explained(project: Project) -> None:
    text = explained(project, ROOT / "configs/city.yaml")
    rules = dict(re.findall(r"^Rule (\w+) .*\n((?:  .*\n)*)", text, re.MULTILINE))
    assert set(rules) == {"SuddenSlowDown", "WarnNeighbours", "SpreadingSlowDown", "SlowInStrongWind", "SlowNearFullCarPark"}
    assert "  from SlowDown (event SlowDown)\n" in rules["WarnNeighbours"]
    assert "  if         Reading.?speed < (0.6 * Before.?speed)\n" in rules["SuddenSlowDown"]
    spread = "any: anchors are spread by their values and times; StrongWind is replicated: every bucket has its events"
    assert f"  partition  {spread}\n  layer      0: it reads no events of rules\n" in rules["SlowInStrongWind"]
    assert (
        "  partition  in 2 stages, from each of which bindings go to the next\n"
        "  stage 1    SlowDown, Beside by the value of SlowDown.?section = Beside.?section: "
        "equalities tie Beside to the anchor and SlowDown is made under it\n"
        "    layer    0: SlowDown is read in the partition that makes it\n"
        "  stage 2    Parking by the value of Beside.?park = Parking.?park: bindings come from stage 1\n"
        "    layer    1: above stage 1\n"
        "  state      Beside: ?park, ?section: kept for their instant\n"
        "  state      Parking: ?occupancy, ?park: kept 1 h\n"
    ) in rules["SlowNearFullCarPark"]
    assert "one core" not in text
    assert "  layer      0: SlowDown is read in the partition that makes it\n" in rules["WarnNeighbours"]
    assert "  layer      1: Warning is made under another key, in a layer before\n" in rules["SpreadingSlowDown"]


STAGES = """\
PREFIX : <http://e/>
query A = [ SELECT ?k ?l WHERE { ?x a :A ; :k ?k ; :l ?l } ]
query B = [ SELECT ?k ?l WHERE { ?x a :B ; :k ?k ; :l ?l } ]
rule Chain define Pair = [ [] :of ?k ] from A and each B as Any within 5 s from A
and ?n = count(*) of B as Same [ FILTER(?k = A.?k) ] within 5 s from A
and last B as Next [ FILTER(?l = ?n) ] within 5 s from A with Pair.?k = Next.?k
rule Over define Over = [ [] a :Over ] from Pair and last A within 1 s from Pair
rule Using define Used = [ [] a :Used ] from A and last B [ FILTER(?k = A.?k) ] within 5 s from A
and not B as Other [ FILTER(?k = B.?l) ] within 5 s from A consuming B
rule Nowhere define None = [ [] a :None ] from A and last B [ FILTER(?k < A.?k) ] within 5 s from A consuming B
rule Hour define Beat = [ [] a :Beat ] from every 1 h as Hour and last A within 1 h from Hour
and last B [ FILTER(?k = A.?k) ] within 1 h from Hour
"""


COMMENTED = {
    "u.dotr": """PREFIX # ours
  : # their terms
  <http://e/>
query Hot = [ SELECT ?x # the room
  WHERE { ?x :temp ?v # in °C
    FILTER(?v > 5 # [ ten " is too many
  ) } ]
rule R define Out = [ [] a :Out ] from Hot # a room
  and last Hot as Before # the same
  [ FILTER(?x = # that one
    Hot.?x) ] within 5 # minutes
  min from Hot if Hot.?x != :attic # not there
""",
    "u.epsparql": """PREFIX # ours
  : # their terms
  <http://e/>
REGISTER QUERY Fall AS SELECT ?c WHERE { ?c :temp ?p . # in °C, or "F
    ?c :name "a  # b" ; <http://e/#x> :a\\#b } # before
  SEQ { ?c :temp ?q # after
  } FILTER(?q < ?p) WITHIN 10 # seconds
  s
""",
    "u.lars": """PREFIX # ours
  : # their terms
  <http://e/>
RESOLUTION 500 # thousandths
  ms .
Silent(?s) :- :at(?s, # anywhere
    ?l) IN [5 # five
    s], NOT :temp(?s, ?v) IN [2 # two
  s] . # nothing
REPORT Silent( # of a sensor
  ?s) .
""",
    "u.rspql": """PREFIX # ours
  : # their terms
  <http://e/>
REGISTER RSTREAM Warm AS SELECT ?x FROM NAMED WINDOW <w> ON :s [RANGE 10 # ten
  s STEP 5 # five
  s] WHERE { WINDOW <w> { ?x :temp ?v # in °C
  } }
""",
}


def test_comments_are_in_no_text_and_prefixes_over_several_lines_shorten(project: Project) -> None:
    texts = {}
    for name, text in COMMENTED.items():
        project.write(name, text)
        texts[name] = explained(project, name)
    assert [line for text in texts.values() for line in text.splitlines() if "#" in line or "<http://e/" in line] == [
        '  reads      { ?c :temp ?p . ?c :name "a  # b" ; <http://e/#x> :a\\#b }, of the past'
    ]
    assert "             { ?c :temp ?q }\n" in texts["u.epsparql"]
    assert "keeps its left solutions for 10 s\n" in texts["u.epsparql"]
    assert "  wakes on   :temp\n" in texts["u.dotr"]
    assert "  if         Hot.?x != :attic\n" in texts["u.dotr"]
    assert "within (0, 5 min] from Hot\n    where    ?x = Hot.?x\n" in texts["u.dotr"]
    assert "  points     of 500 ms" in texts["u.lars"]
    assert (
        "  state      :at: of each atom the last point of 5 s\n             :temp: of each atom the last point of 2 s\n" in texts["u.lars"]
    )
    assert ": RANGE 10 s STEP 5 s\n" in texts["u.rspql"]


def test_comments_are_in_no_answer_of_why_and_why_not(project: Project) -> None:
    project.write("all.epsparql", COMMENTED["u.epsparql"].replace("WITHIN 10", "WITHIN 1"))
    project.write("all.lars", COMMENTED["u.lars"].replace("500", "1000"))
    project.write(
        "a.ndjson",
        '{"time": 1, "graph": ":s :at :l ; :temp 9 ; :name \\"a  # b\\" ; <http://e/#x> :a\\\\#b ."}\n'
        '{"time": 3, "graph": ":s :temp 5 ."}\n{"time": 6, "graph": ":s :at :l ."}\n',
    )
    project.write("c.yaml", CONFIG.replace("r.dotr", "all.epsparql, all.lars"))
    why_not = project.dotr("why-not", "c.yaml", "--rule", "Fall").out
    assert (
        '  { ?c :temp ?p . ?c :name "a  # b" ; <http://e/#x> :a\\#b }: 1 solution, the last at 1\n  { ?c :temp ?q }: 2 solutions' in why_not
    )
    assert (
        "NOT :temp(?s, ?v) IN [2 s]: nothing matches with ?s = :s\n" in project.dotr("why", "c.yaml", "--rule", "Silent", "--at", "6").out
    )
    assert "#" not in project.dotr("why-not", "c.yaml", "--rule", "Silent", "--at", "2").out


def test_clause_of_an_empty_interval_is_explained(project: Project) -> None:
    project.change("r.dotr", "with Out", "and not B = [ SELECT ?x WHERE { ?x a :B } ] between A and A\nwith Out")
    assert "state      B: ?x: kept for their instant\n" in explained(project, "r.dotr")


def test_every_kind_of_partition_is_explained(project: Project) -> None:
    project.write("stages.dotr", STAGES)
    rules = rules_of(explained(project, "stages.dotr"))
    assert (
        "  partition  in 2 stages, from each of which bindings go to the next\n"
        "  stage 1    A, Any, Same by the value of A.?k = Same.?k: equalities tie Same to the anchor; "
        "Any is replicated: every bucket has its events\n"
        "    layer    0: it reads no events of rules\n"
        "  stage 2    Next by the value of ?n = Next.?l: bindings come from stage 1\n"
        "    layer    1: above stage 1\n"
    ) in rules["Chain"]
    assert "  layer      2: Pair is made in a layer before\n" in rules["Over"]
    assert (
        "  partition  by the value of A.?k = B.?k: equalities tie B to the anchor; Other is replicated: every bucket has its events\n"
    ) in rules["Using"]
    assert (
        "  partition  one partition, on one core: no attribute of A is equated with one of every label that it consumes (B)\n"
    ) in rules["Nowhere"]
    assert (
        "  stage 1    Hour, A one partition, on one core: Hour ticks without an attribute that could spread its ticks\n"
        "    layer    0: it reads no events of rules\n"
        "  stage 2    B by the value of A.?k = B.?k: bindings come from stage 1\n"
    ) in rules["Hour"]


def test_stateless_rules_are_explained(project: Project) -> None:
    rules = "PREFIX : <http://e/>\nquery A = [ SELECT ?x WHERE { ?x a :A } ]\n"
    rules += "rule One define O = [ ?x a :O ] from A and each A as B within [0, 0] from A with O.?x = B.?x\n"
    rules += "rule Two define T = [ ?x a :T ] from O with T.?x = O.?x\n"
    project.write("now.dotr", rules)
    text = "\nNo state outlives an instant: on Spark the tasks that read the input run all rules, with no stateful operator.\n"
    assert text in explained(project, "now.dotr")
    project.write("now.dotr", rules.replace("[0, 0]", "[0, 1 s]"))
    assert "with no stateful operator" not in explained(project, "now.dotr")


def test_shared_and_full_queries_are_explained(project: Project) -> None:
    project.write(
        "two.dotr",
        "PREFIX : <http://e/>\n"
        "query A = [ SELECT ?x WHERE { ?x a :A } ]\n"
        "query B = [ SELECT ?y WHERE { ?y :p ?z . FILTER NOT EXISTS { ?q :r ?y } } ORDER BY ?z LIMIT 1 ]\n"
        "query Idle = [ SELECT ?y WHERE { ?y a :Idle } ]\n"
        "rule One define O = [ ?x a :O ] from A with O.?x = A.?x\n"
        "rule Two define P = [ ?x a :P ] from A and each B within 1 h 30 s from A with P.?x = B.?y\n",
    )
    text = explained(project, "two.dotr")
    assert "Query 1: A of One, Two, evaluated once for all of them\n" in text
    assert "Read by no rule, evaluated in rule tests only: Idle\n" in text
    assert "  each B (query 2) within (0, 1 h 30 s] from A\n" in text
    assert "  partition  any: each anchor is on its own, for there is no clause\n  layer      0: it reads no events of rules\n" in text
    assert "  state      none\n" in text


def test_evaluation_of_a_query_is_explained(project: Project) -> None:
    """By joins from the new triples, by operators from the new triples, or in full."""
    where = {"A": "?x a :A", "B": "?x a :B ; (:in?/:of*)* ?y", "C": "?x a :C FILTER NOT EXISTS { ?q :r ?y }"}
    queries = "".join(f"query {label} = [ SELECT ?x WHERE {{ {text} }} ]\n" for label, text in where.items())
    count = "query D = [ SELECT (COUNT(?s) AS ?x) WHERE { ?s :p ?o } ]\n"
    rules = "".join(f"rule Of{label} define E{label} = [ ?x a :E ] from {label} with E{label}.?x = {label}.?x\n" for label in "ABCD")
    project.write("ways.dotr", f"PREFIX : <http://e/>\n{queries}{count}{rules}")
    asked = re.findall(r"^  asked +(.*)$", explained(project, "ways.dotr"), re.MULTILINE)
    assert asked[0] == "from what the instant brings"
    assert asked[1].startswith("from what the instant brings, by operators: ")
    assert asked[3].startswith("from what the instant brings, by operators: aggregates")


@pytest.mark.parametrize("config", ["fire", "city"])
def test_drawing_has_all_queries_rules_and_events(project: Project, config: str) -> None:
    path = ROOT / f"configs/{config}.yaml"
    text = explained(project, path)
    rules, queries = re.findall(r"^Rule (\w+)", text, re.MULTILINE), re.findall(r"^Query (\d+)", text, re.MULTILINE)
    flow = explained(project, path, "--format", "mermaid")
    assert flow.startswith("flowchart LR\n")
    assert all(re.search(rf'^  r\d+\[\["{rule}<br/>', flow, re.MULTILINE) for rule in rules)
    assert all(f"  q{number}[" in flow for number in queries)
    assert all(line.count('"') % 2 == 0 and "<b" not in line.replace("<br/>", "") for line in flow.splitlines())
    drawn = minidom.parseString(explained(project, path, "--format", "svg"))
    reported = [node.firstChild.data for node in drawn.getElementsByTagName("text") if isinstance(node.firstChild, minidom.Text)]
    assert set(rules) <= set(reported)


def numbers(element: minidom.Element, *names: str) -> tuple[float, ...]:
    return tuple(float(element.getAttribute(name)) for name in names)


def points(path: str) -> Iterator[tuple[float, float]]:
    """Points along a path of M, C and L."""
    at = (0.0, 0.0)
    for command, rest in re.findall(r"([MCL])([-\d. ]+)", path):
        values = [float(number) for number in rest.split()]
        a, *inner = [at, *zip(values[::2], values[1::2], strict=True)]
        if command == "C":
            b, c, d = inner
            for step in range(41):
                t = step / 40
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                yield tuple(sum(w * p[axis] for w, p in zip(weights, (a, b, c, d), strict=True)) for axis in (0, 1))  # type: ignore[misc]
        elif command == "L":
            (b,) = inner
            yield from ((a[0] + (b[0] - a[0]) * step / 40, a[1] + (b[1] - a[1]) * step / 40) for step in range(41))
        at = inner[-1]


LONG = """\
PREFIX : <http://example.org/a-rather-long-namespace-for-every-name-that-stands-in-this-program#>
query Reading = [ SELECT ?sensor ?value ?room ?floor WHERE { ?sensor :value ?value ; :room ?room ; :floor ?floor } ]
rule Again define Remind = [ [] :of ?room ] from Remind as Earlier delayed by 5 min
and not Reading as OfTheSameRoomAndFloor [ FILTER(?room = Earlier.?room && ?value > 1000 && REGEX(STR(?sensor), "^http://example.org/a-rather-long-"
 ) && STRLEN(CONCAT(STR(?sensor), STR(?floor), "a text of some length, with <, > & \\"quotes\\"")) > 12) ] within 5 min from Earlier
with Remind.?room = Earlier.?room
rule Once define Remind = [ [] :of ?room ] from Reading with Remind.?room = Reading.?room
rule Top define Top = [ [] :of ?room ] from Remind and last Reading [ FILTER(?floor = Remind.?room) ] within 1 h from Remind
and ?mean = avg(Others.?value) of Reading as Others [ FILTER(?value < Remind.?room) ] within 1 h from Remind
if ?mean > 3 with Top.?room = Reading.?room
rule Roof define Roof = [ [] a :Roof ] from every 10 min as Tick and last Top within 1 h from Tick
and each Remind within 1 h from Top and first Reading [ FILTER(?value = Remind.?room) ] within 1 h from Remind
"""


CASES = sorted((ROOT / "tests/cases").glob("*.yaml"))


@pytest.mark.parametrize("name", ["long", "configs/city.yaml", *(f"tests/cases/{path.name}" for path in CASES)])
def test_texts_and_arrows_never_overlap(project: Project, name: str) -> None:
    project.write("long.dotr", LONG)
    path = "long.dotr" if name == "long" else ROOT / name
    drawn = minidom.parseString(explained(project, path, "--format", "svg"))
    root = drawn.documentElement
    assert root is not None
    width, height = numbers(root, "width", "height")
    boxes = [numbers(box, "x", "y", "width", "height") for box in drawn.getElementsByTagName("rect")[1:]]
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for a, b in combinations(boxes, 2):
        assert a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]
    lines: dict[int, list[float]] = {}
    for text in drawn.getElementsByTagName("text"):
        x, y = numbers(text, "x", "y")
        assert isinstance(text.firstChild, minidom.Text)
        right = x + 6.7 * len(text.firstChild.data)
        (box,) = (n for n, (bx, by, w, h) in enumerate(boxes) if bx < x and right <= bx + w and by + 10 < y < by + h)
        lines.setdefault(box, []).append(y)
    assert all(b - a >= 12 for ys in lines.values() for a, b in pairwise(ys))
    for arrow in drawn.getElementsByTagName("path")[1:]:
        for x, y in points(arrow.getAttribute("d")):
            assert not any(bx + 1 < x < bx + w - 1 and by + 1 < y < by + h - 1 for bx, by, w, h in boxes), arrow.getAttribute("d")


def test_long_lines_of_a_drawing_wrap(project: Project) -> None:
    project.write("long.dotr", LONG)
    drawn = explained(project, "long.dotr", "--format", "svg")
    assert max(len(line) for line in re.findall(r">([^<]+)</text>", drawn)) < 100


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
@pytest.mark.parametrize("form", ["text", "mermaid", "svg"])
def test_every_case_can_be_explained(project: Project, path: Path, form: str) -> None:
    assert explained(project, path, "--format", form)


def test_unexplainable_file_is_refused(project: Project) -> None:
    assert "C302 cannot read none.yaml" in project.refused("explain", "none.yaml")
    assert "C303 a.ndjson is nothing that dotr explains" in project.refused("explain", "a.ndjson")
    project.change("r.dotr", "from A", "form A")
    assert "r.dotr:4:1: D101" in project.refused("explain", "r.dotr")
    assert "r.dotr:4:1: D101" in project.refused("explain", "c.yaml")
    assert "invalid choice: 'png'" in project.refused("explain", "c.yaml", "--format", "png")


def test_new_project_runs(project: Project) -> None:
    answer = project.dotr("new", "deep/plant")
    assert answer.code == 0
    assert answer.out.split() == [f"deep/plant/{name}" for name in (*FILES, SCHEMA)]
    run = project.dotr("run", "deep/plant/config.yaml")
    assert (run.code, run.err) == (0, "5 elements, 5 instants, 5 facts, 1 event -> deep/plant/out/alarms.ndjson\n")
    test = project.dotr("test", "deep/plant")
    assert test.code == 0
    assert test.out.endswith("2 passed, 0 failed\n")
    assert project.dotr("check", "deep/plant", "--strict").code == 0
    assert "  partition  by the value of Reading.?machine = Before.?machine" in explained(project, "deep/plant/config.yaml")


def test_new_project_refuses_a_folder_in_use(project: Project) -> None:
    before = project.files()
    assert "C305 . holds files already" in project.refused("new", ".")
    assert "C305 a.ndjson is a file" in project.refused("new", "a.ndjson")
    assert "C304 cannot write a.ndjson/x" in project.refused("new", "a.ndjson/x")
    assert "C304 cannot write /proc/none" in project.refused("new", "/proc/none/x")
    assert project.files() == before
    (project.folder / "empty").mkdir()
    assert project.dotr("new", "empty").code == 0
    assert 'name: "empty"' in project.read("empty/config.yaml")


TIMERS = """\
PREFIX : <http://e/>
query Temp = [ SELECT ?room ?v WHERE { ?t :room ?room ; :val ?v } ]
rule Silent define Silent = [ [] :at ?room ]
from every 10 min for [ SELECT ?room WHERE { ?room a :Room } ] as Tick
and not Temp [ FILTER(?room = Tick.?room) ] within [0, 10 min) from Tick
with Silent.?room = Tick.?room
rule Late define Late = [ [] :at ?room ]
from Temp delayed by 1 min
and last 2 Temp as Before [ FILTER(?room = Temp.?room) ] within 5 min from Temp
and not Temp as Mid [ FILTER(?room = Temp.?room) ] between Before and Temp
with Late.?room = Temp.?room
rule Hourly define Beat = [ [] a :Beat ] from every 1 h as Hour
"""


def rules_of(text: str) -> dict[str, str]:
    return dict(re.findall(r"^Rule (\w+) .*\n((?:  .*\n)*)", text, re.MULTILINE))


def test_timers_and_chains_are_explained(project: Project) -> None:
    project.write("rooms.ttl", "@prefix : <http://e/> . :a a :Room . :b a :Room .")
    project.write("t.yaml", TEST.replace("r.dotr]", "timers.dotr]\nknowledge: { graphs: [rooms.ttl] }"))
    project.write("timers.dotr", TIMERS)
    text = explained(project, "t.yaml")
    assert "Query 1: Tick of Silent\n  asked      once, of the background alone: 2 answers, each a tick\n\n" in text
    rules = rules_of(text)
    assert rules["Silent"] == (
        "  from Tick (query 1), every 10 min, a tick for each answer\n"
        "  not Temp (query 2) within [0, 10 min) from Tick\n"
        "    where    ?room = Tick.?room\n"
        "  with       Silent.?room = Tick.?room\n"
        "  partition  by the value of Tick.?room = Temp.?room: equalities tie every clause to the anchor\n"
        "  layer      0: it reads no events of rules\n"
        "  state      Temp: ?room, ?v: kept less than 10 min\n"
    )
    assert rules["Late"].startswith("  from Temp (query 2), delayed by 1 min: looked at that much after it held\n  last 2 Before (query 2)")
    assert rules["Late"].endswith(
        "  state      Temp: ?room, ?v: wait 1 min\n"
        "  state      Before: ?room, ?v: kept 5 min, and less than 10 min for rule Silent\n"
        "  state      Mid: ?room, ?v: kept less than 5 min (between Before and Temp, 5 min from Temp), "
        "and less than 10 min for rule Silent\n"
    )
    assert rules["Hourly"].startswith("  from Hour (the clock), every 1 h\n  partition  any")
    assert "asked      once, of the background alone: no answer, so that it never ticks\n" in explained(project, "timers.dotr")


@pytest.mark.parametrize(
    ("clause", "reported"),
    [
        ("count(*) of Temp as T within 1 h from Temp", "slides: a look-up of the window's ends, O(log n) an answer"),
        ("sum(T.?v) of Temp as T [ FILTER(?room = Temp.?room && ?v > 3) ] within 1 h from Temp", "slides: sums so far, O(1) an event"),
        ("avg(T.?v) of Temp as T between Before and Temp", "slides: sums so far, O(1) an event and O(log n) an answer"),
        ("max(distinct T.?v) of Temp as T within 1 h from Before", "slides: the greatest of each block of events"),
        ("sum(distinct T.?v) of Temp as T within 1 h from Temp", "slides: the window's values with their counts"),
        ("median(T.?v) of Temp as T within 1 h from Temp", "slides: the window's numbers in their order, O(log n) an event"),
        ("quantile(0.95, distinct T.?v) of Temp as T between Before and Temp", "slides: the window's numbers in their order"),
        ("stddev(T.?v) of Temp as T within 1 h from Before", "slides: the window's sum and sum of squares, O(1) an event"),
        (
            "sum(distinct T.?v) of Temp as T within 1 h from Before",
            "computed again from the window's events at each anchor: what is distinct is counted only in windows that hang on the anchor",
        ),
        (
            "sum(T.?v) of Temp as T [ FILTER(?v > Temp.?v && ?room = Temp.?room) ] within 1 h from Temp",
            "computed again from the window's events at each anchor: ?v > Temp.?v relates it to another event by more than an equality",
        ),
        (
            "sum(T.?v) of Temp as T [ FILTER(time(T) < time(Before)) FILTER(?v != Temp.?v) ] within 1 h from Temp",
            ": time(T) < time(Before) and ?v != Temp.?v relate it to another event by more than an equality",
        ),
        ("sum(T.?v) of Temp as T within 1 h from Temp consuming T", ": T is consumed"),
    ],
)
def test_evaluation_of_an_aggregate_is_explained(project: Project, clause: str, reported: str) -> None:
    project.write(
        "agg.dotr",
        "PREFIX : <http://e/>\nquery Temp = [ SELECT ?room ?v WHERE { ?t :room ?room ; :val ?v } ]\n"
        f"define Sum = [ [] a :Sum ] from Temp and last Temp as Before within 1 h from Temp and ?x = {clause}\n",
    )
    text = explained(project, "agg.dotr")
    assert reported in text
    assert ("consuming  T: all that ?x is made of is used up for this rule\n" in text) == ("consuming" in clause)


def test_recursion_and_shared_matchers_are_explained(project: Project) -> None:
    project.write(
        "rec.dotr",
        "PREFIX : <http://e/>\nquery A = [ SELECT ?x ?v WHERE { ?x :a ?v } ]\n"
        "rule Ping define Ping = [ [] a :P ] from A and last Pong [ FILTER(?x = A.?x) ] within 1 min from A with Ping.?x = A.?x\n"
        "rule Pong define Pong = [ [] a :P ] from A and last Ping [ FILTER(?x = A.?x) ] within 1 min from A with Pong.?x = A.?x\n"
        "rule High5 define High = [ [] a :H ] from A if A.?v > 5\n"
        "rule High9 define High = [ [] a :H ] from A if A.?v > 9\n",
    )
    rules = rules_of(explained(project, "rec.dotr"))
    reported = "  recursion  rules Ping and Pong need each other's Ping and Pong, strictly in the past; so they have one key (?x of A)\n"
    assert reported in rules["Ping"]
    assert reported in rules["Pong"]
    assert "  runs       as one with High9, which differs in constants alone\n" in rules["High5"]
    assert "recursion" not in rules["High5"]


def test_aggregate_in_a_later_constraint_is_explained(project: Project) -> None:
    project.write(
        "mean.dotr",
        "PREFIX : <http://e/>\nquery Temp = [ SELECT ?room ?v WHERE { ?t :room ?room ; :val ?v } ]\n"
        "define High = [ [] :v ?v ] from Temp and ?mean = avg(Past.?v) of Temp as Past within 1 h from Temp\n"
        "and last Temp as Above [ FILTER(?v > ?mean) ] within 1 h from Temp\n"
        "and ?n = count(*) of Temp as More [ FILTER(?v > ?mean && ?room = Temp.?room) ] within 1 h from Temp\n"
        "with High.?v = Above.?v + ?n\n",
    )
    text = explained(project, "mean.dotr")
    assert text.startswith("mean.dotr, without the knowledge that a configuration names\n")
    assert text.count("    where    ?v > ?mean\n") == 2
    assert "computed again from the window's events at each anchor: ?v > ?mean relates it to another event" in text
