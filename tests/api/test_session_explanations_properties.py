"""Random programs and streams: each event of a session has reasons, and the funnel of each rule counts its events."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given

from dotr import Session
from dotr.api.events import utc
from dotr.model.stream import Element
from tests.support.properties import compiled, examples, shown
from tests.support.running import by_time
from tests.support.strategies import ProgramText, programs
from tests.support.strategies_streams import streams

_MOST_EVENTS = 5


@examples(30)
@given(programs(), streams(longest=6))
def test_sessions_explain_each_event_and_each_rule(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    session = Session(compiled(text), record=True)
    events = [event for time, graphs in by_time(elements).items() for event in session.advance(utc(time), *graphs)]
    events += session.finish()
    for event in events[:_MOST_EVENTS]:
        assert re.match(rf"{re.escape(event.type)} (\(rule {re.escape(event.rule)}\) )?at ", session.why(event).text)
    if len(events) < 100:
        counts = Counter(event.rule for event in events)
        for rule in session.replay().program.rules.rules:
            funnel = session.why_not(rule.name).data["funnel"]
            assert isinstance(funnel, dict)
            assert funnel["events"] == counts[rule.name]
