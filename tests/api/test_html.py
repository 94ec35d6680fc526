"""`_repr_html_` of programs, events and lists of events: what a notebook shows, with all content escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from dotr import Event, Program
from dotr.api.events import MOST_ROWS, Events
from dotr.model.terms import XSD, literal
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

HOSTILE = "<script>alert('1')</script>&amp;\"\u202e\x1b[31m"
FIRE = (
    '<table class="dotr"><thead><tr><th>time</th><th>rule</th><th>type</th><th>room</th><th>v</th></tr></thead><tbody>'
    "<tr><td>12</td><td>R</td><td>Fire</td><td>:lab</td><td>7</td></tr></tbody></table>"
)


class Page(HTMLParser):
    """The tags and the text of a fragment; fails where tags do not nest."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(fragment)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._open.append(tag)
        assert {name for name, _ in attrs} <= {"class", "colspan"}

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def fire(**attributes: str) -> Event:
    return Event(12, "R", "Fire", attributes, "", {"": "http://e/"})


def test_event_is_a_table_of_one_row() -> None:
    event = fire(room="<http://e/lab>", v=f'"7"^^<{XSD}integer>')
    assert event._repr_html_() == Events([event])._repr_html_() == FIRE


def test_events_have_a_column_for_each_attribute() -> None:
    page = Page(Events([fire(a=literal("x")), fire(b=literal("y"))])._repr_html_())
    assert page.text == 'timeruletypeab12RFire"x"12RFire"y"'
    assert Page(Events()._repr_html_()).text == "no events"


def test_events_are_a_list() -> None:
    assert Events() == []
    assert Events([fire()]) == [fire()]
    assert [fire()] == Events([fire()])
    assert repr(Events([fire()])) == repr([fire()])
    assert isinstance(Events(), list)


def test_many_events_are_shown_in_part() -> None:
    page = Page(Events([fire(v=literal("x"))] * (MOST_ROWS + 7))._repr_html_())
    assert page.text.count('"x"') == MOST_ROWS
    assert page.text.endswith("… and 7 more")
    assert "more" not in Events([fire()] * MOST_ROWS)._repr_html_()


def test_content_of_events_is_escaped() -> None:
    event = Event(12, HOSTILE, HOSTILE, {"x": literal(HOSTILE), "y": f"<http://e/{HOSTILE}>"}, "")
    page = Page(event._repr_html_())
    assert page.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert "<script>alert('1')</script>&amp;" in page.text
    assert "\u202e" not in page.text
    assert "\x1b" not in page.text


def test_prefixes_of_an_event_are_no_part_of_its_value() -> None:
    assert fire() == Event(12, "R", "Fire", {}, "")
    assert "http://e/" not in repr(fire())


def test_session_returns_events_with_the_prefixes_of_the_program() -> None:
    with Program.from_config(ROOT / "configs/fire.yaml").session() as session:
        heat = session.advance(10, ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
        fires = session.advance(12, ":r2 a :Smoke ; :is_from_sensor :s2 . :s2 :is_at_location :locB .")
        assert isinstance(heat, Events)
        assert Page(fires._repr_html_()).text == "timeruletyperoom12RFire:roomA"
        assert isinstance(session.finish(), Events)
        assert isinstance(session.finish(), Events)


def test_program_lists_its_rules_and_its_background() -> None:
    page = Page(Program.from_config(ROOT / "configs/fire.yaml")._repr_html_())
    assert page.tags == {"table", "thead", "tbody", "tr", "th", "td", "p"}
    assert page.text == (
        "rulemeaningdefinesreads"
        "RSmoke in a room within five minutes after a high temperature there is a fire.FireSmoke, HighTemp"
        "times in s; background of 1 RDF file and 1 Datalog file, entailment none"
    )


def test_content_of_a_program_is_escaped(tmp_path: Path) -> None:
    rule = "define B = [ ?x a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ] with B.?x = A.?x"
    (tmp_path / "r.dotr").write_text(f'PREFIX : <http://e/> rule R "<script>x</script> & so on" {rule}', encoding="utf-8")
    page = Page(Program.load(tmp_path / "r.dotr")._repr_html_())
    assert "script" not in page.tags
    assert "<script>x</script> & so on" in page.text


def test_program_of_many_rules_is_shown_in_part(tmp_path: Path) -> None:
    rules = [f"rule R{n} define B{n} = [] from A = [ SELECT * WHERE {{ ?x a :A }} ]" for n in range(MOST_ROWS + 3)]
    (tmp_path / "r.dotr").write_text("PREFIX : <http://e/>\n" + "\n".join(rules), encoding="utf-8")
    text = Page(Program.load(tmp_path / "r.dotr")._repr_html_()).text
    assert "… and 3 more" in text
    assert f"R{MOST_ROWS}" not in text
