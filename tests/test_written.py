"""What is written is called what it was called, whatever the code calls it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.planning import Offset
from tests.kept_written import FILES, FULL, OFFSET, PLAIN, ROWS, SMALL, kept, sent


@pytest.mark.parametrize("number", range(2), ids=["kept", "sent"])
def test_what_is_written_is_what_was_written(number: int) -> None:
    """Members in their order, too: texts of it are hashed."""
    makes: tuple[Callable[[], dict[str, object]], ...] = kept, sent
    known, made = json.loads(FILES[number].read_text()), json.loads(json.dumps(makes[number]()))
    assert list(made) == list(known)
    for name in known:
        assert json.dumps(made[name], indent=1) == json.dumps(known[name], indent=1), name


def test_what_was_sent_is_read() -> None:
    known = json.loads(FILES[1].read_text())
    assert type(SMALL).from_json(known["specification"][0]) == SMALL
    assert type(FULL).from_json(known["specification"][1]).limits == FULL.limits
    assert [type(PLAIN).from_json(text) for text in known["inputs"]] == [PLAIN, ROWS]
    assert [Job.from_json(text).to_json() for text in known["job"]] == known["job"]
    assert Offset.of_json(json.loads(json.loads(FILES[0].read_text())["offset"])) == OFFSET
