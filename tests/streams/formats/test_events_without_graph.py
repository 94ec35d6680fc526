"""Events without a graph in every output: a line of NDJSON with an empty graph, nothing elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.model.stream import Firing
from dotr.model.time import Clock
from dotr.runtimes.external_sort import decode_firings, encode_firings
from dotr.streams.formats.writing import StreamFormat, compile_writer
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.messages import MessageFormat
from dotr.streams.sinks.parquet import ParquetFile
from tests.support.outputs import numbering_encoder

pytestmark = pytest.mark.core

WITHOUT = Firing(12_000_000, "Trending", "Trending", (("tag", '"a"'),), None, 0)
EMPTY = Firing(12_000_000, "Emptied", "Emptied", (), (), 1)
WHOLE = Firing(12_000_000, "Fire", "Fire", (), (("<http://e/f>", "<http://e/at>", '"A"'),), 0)


def written(form: StreamFormat, *firings: Firing) -> str:
    return "".join(compile_writer(form, Clock(), ["tag"])(firings))


def test_line_of_ndjson_has_an_empty_graph() -> None:
    assert written(StreamFormat.NDJSON, WITHOUT) == (
        '{"time": 12, "rule": "Trending", "event": "Trending", "attributes": {"tag": "\\"a\\""}, "graph": ""}\n'
    )


@pytest.mark.parametrize("form", [StreamFormat.TRIG, StreamFormat.NQUADS, StreamFormat.CSV])
def test_other_text_formats_leave_out_events_without_graph(form: StreamFormat) -> None:
    assert written(form, EMPTY, WHOLE, WITHOUT) == written(form, EMPTY, WHOLE)


@pytest.mark.parametrize("form", [StreamFormat.TRIG, StreamFormat.NQUADS, StreamFormat.CSV])
def test_graph_with_only_dropped_triples_is_written(form: StreamFormat) -> None:
    assert len(written(form, EMPTY, WHOLE)) > len(written(form, WHOLE))


def test_parquet_leaves_out_events_without_graph(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "out.parquet"
    with ParquetFile(str(path), Clock(), ["tag"]) as sink:
        sink.write_items([EMPTY, WITHOUT, WHOLE])
    assert parquet.read_table(path)["rule"].to_pylist() == ["Emptied", "Fire"]


@pytest.mark.parametrize("form", [StreamFormat.NDJSON, StreamFormat.TRIG, StreamFormat.NQUADS, StreamFormat.CSV])
def test_messages_in_other_formats_than_ndjson_leave_out_events_without_graph(form: StreamFormat) -> None:
    encode = numbering_encoder(MessageFormat(form, OutputTerms(Clock(), ["tag"], pipeline="p")))
    ordinals = [message.ordinal for message in encode([EMPTY, WITHOUT, WHOLE])]
    assert ordinals == ([0, 1, 2] if form is StreamFormat.NDJSON else [0, 2])


def test_sorted_runs_keep_the_difference_between_no_graph_and_an_empty_one() -> None:
    assert decode_firings(encode_firings([WITHOUT, EMPTY, WHOLE])) == [WITHOUT, EMPTY, WHOLE]
