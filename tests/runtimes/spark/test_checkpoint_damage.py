"""Damaged checkpoint files: each is named, with a repair that works."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.stores import Location
from dotr.runtimes.spark.checkpoint.damage import check_logs, failure_in, find_damage
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, CheckpointLayout
from dotr.runtimes.spark.checkpoint.standard_input_spool import copied_lines
from dotr.runtimes.spark.exchange.errors import failure_of
from dotr.streams.merge.journal import Journal
from tests.support.stored_forms import HOLDINGS

OFFSET = 'v1\n{"batchWatermarkMs":0}\n{"version": 1, "time": 5, "places": [[5420, 121, 119000000]]}'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


def put(path: Path, text: str) -> Path:
    """Write a file with its checksums, as Hadoop does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(data)
    sums = b"".join(zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512))
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + sums)
    return path


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """Three batches are planned, two of them written."""
    folder = tmp_path / "query"
    put(folder / "metadata", '{"id":"60981d2e"}')
    for number in range(3):
        put(folder / "offsets" / str(number), OFFSET + " " * 600)
    for number in range(2):
        put(folder / "commits" / str(number), COMMIT)
    put(folder / "state/0/0/2.changelog", "x" * 2000)
    check_logs(Location(str(folder)))
    assert find_damage(Location(str(folder)), "no such thing") is None
    return folder


def refusal(query: Path) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        check_logs(Location(str(query)))
    (found,) = refused.value.diagnostics
    assert found.code == "S114"
    return found.message.replace(str(query), "Q").removeprefix("the checkpoint is damaged: "), found.hint.replace(str(query), "Q")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("offsets/2", "Its batch is not written yet. Remove Q/offsets/2 and Q/offsets/.2.crc: the same command plans it again."),
        ("offsets/1", "Put the folder back from a copy, or start over with --fresh"),
        ("commits/1", "Remove it and Q/commits/.1.crc beside it: the same command does its batch again, or goes on behind it."),
        ("metadata", "It holds an id and no more: remove Q/.metadata.crc, write {"),
    ],
)
@pytest.mark.parametrize("how", ["empty", "cut", "zeros", "changed"])
def test_damaged_log_is_named(query: Path, name: str, hint: str, how: str) -> None:
    path = query / name
    data = path.read_bytes()
    changes = {
        "empty": b"",
        "cut": data[: 9 if name == "metadata" else 20],
        "zeros": bytes(len(data)),
        "changed": data.replace(b"0", b"1", 1),
    }
    path.write_bytes(changes[how])
    message, way_out = refusal(query)
    assert message.startswith(f"Q/{name} is ")
    assert way_out.startswith(hint)
    path.with_name(f".{path.name}.crc").unlink()
    if how != "changed":
        assert refusal(query)[0].startswith(f"Q/{name} "), "also where there are no checksums"


def test_damaged_offset_of_written_batch_returns_to_the_one_before(query: Path) -> None:
    put(query / "commits/2", COMMIT)
    (query / "offsets/2").write_bytes(b"")
    files = "Q/offsets/2, Q/offsets/.2.crc, Q/commits/2 and Q/commits/.2.crc"
    assert refusal(query) == (
        "Q/offsets/2 is empty",
        f"Remove {files}: the same command goes back to the batch before and does this one again.",
    )
    (query / "offsets/2").unlink()
    assert refusal(query)[0] == "Q/offsets/2 is missing"
    (query / "offsets/1").write_bytes(b"")
    assert refusal(query)[1].startswith("Put the folder back")


def test_damaged_state_of_failed_query_is_named(query: Path) -> None:
    state = query / "state/0/0/2.changelog"
    for data in (b"", b"x" * 1000, b"x" * 1500 + b"y" * 500, b"x" * 2001):
        state.write_bytes(data)
        found = find_damage(Location(str(query)), "An error occurred while calling o2049.collectToPython.")
        assert found is not None
        assert str(state) in found.diagnostics[0].message
    state.unlink()
    found = find_damage(Location(str(query)), f"java.io.FileNotFoundException: File file:{state} does not exist")
    assert found is not None
    assert f"{state} is missing" in found.diagnostics[0].message
    state.with_name(f".{state.name}.crc").unlink(missing_ok=True)  # as Spark removes both
    assert find_damage(Location(str(query)), "java.io.FileNotFoundException: File file:/elsewhere/2.changelog does not exist") is None


@pytest.mark.parametrize("name", ["_metadata/v2/0", "_stateSchema/default/0_1f0c", "1/1.zip", "0/SSTs/000008-3417cb8c.sst"])
def test_missing_description_of_the_state_is_named(query: Path, name: str) -> None:
    """Spark's message names the folder of the operator alone."""
    path = put(query / "state/0" / name, "v2")
    text = f"[STDS_FAILED_TO_READ_OPERATOR_METADATA] Failed to read the operator metadata for checkpointLocation=file:{query}/state/0"
    assert failure_in(Location(str(query)), text, Path("spark.log")).args[0].startswith("Spark stopped: [STDS_FAILED_TO_READ")
    path.unlink()
    found = failure_in(Location(str(query)), text, Path("spark.log"))
    assert str(found).startswith(f"S114 the checkpoint is damaged: {path} is missing\n")


def test_foreign_and_new_files_are_no_damage(query: Path) -> None:
    put(query / "offsets/notes.txt", "mine")
    put(query / "commits/9a", "")
    check_logs(Location(str(query)))
    shutil.rmtree(query)
    check_logs(Location(str(query)))


def test_damaged_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "watched.ndjson"
    path.write_text(json.dumps(["a", 0, "in/a"]) + "\n[1, ]\n" + '["a", 1')
    with pytest.raises(Refused, match=r"S114 the checkpoint is damaged: .*watched\.ndjson: its line 2 is no entry"):
        Journal(Location(str(tmp_path)), {})
    path.write_text(json.dumps(["a", 0, "in/a"]) + "\n")
    with pytest.raises(Refused, match="it does not know file 1 of the input a"):
        Journal(Location(str(tmp_path)), {}).known("a", 1)
    path.write_bytes(b"\xff\xfe]\n")
    with pytest.raises(Refused, match="its line 1 is no entry"):
        Journal(Location(str(tmp_path)), {})


def test_damaged_spool_is_named(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool/next").write_text("")
    with pytest.raises(Refused, match=r"S114 .*spool/next does not contain the number of the next line"):
        copied_lines(tmp_path)


def test_full_disk_is_reported() -> None:
    found = failure_of("java.io.IOException: No space left on device\n\tat java.base", Path("ck/spark.log"))
    assert str(found).startswith(
        "no space left on device: the disk of the checkpoint ck or of Spark's local directories (spark.local.dir) is full"
    )


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 2}', '{"format": "x"}', '{"format": 2, "inputs": [1]}', "{", "\xff"])
def test_invalid_dotr_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "dotr.json").write_text(text, encoding="latin-1")
    with pytest.raises(Refused, match=r"S102 the checkpoint .* cannot be used: its dotr\.json "):
        Checkpoint(str(tmp_path))


LAYOUT = CheckpointLayout("p", "f" * 32, (("in", 5, "/a"),), 2, 3, 4, (("w", 6, "/d/*"),), ("SECOND", True), HOLDINGS, 2, None, 8)


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """A checkpoint's dotr.json as this release writes it."""
    Checkpoint(str(tmp_path)).claim(LAYOUT)
    assert Checkpoint(str(tmp_path)).layout == LAYOUT
    return tmp_path / "dotr.json"


def code_of(file: Path) -> str:
    """The code with which the checkpoint is refused; empty where it opens with the layout it was made with."""
    try:
        assert Checkpoint(str(file.parent)).layout == LAYOUT
    except Refused as refused:
        (found,) = refused.diagnostics
        assert str(file) in found.message or found.code == "S102"
        return found.code
    return ""


def test_every_flipped_bit_of_dotr_json_is_damage(described: Path) -> None:
    """Or it changes nothing, as in white space."""
    data = described.read_bytes()
    harmless = 0
    for at in range(len(data)):
        changed = bytes([data[at] ^ 1 << at % 8])
        described.write_bytes(data[:at] + changed + data[at + 1 :])
        code = code_of(described)
        assert code in ("S114", ""), (at, changed, code)
        harmless += not code
    assert harmless < len(data) / 10
    described.write_bytes(data)
    assert code_of(described) == ""


@pytest.mark.parametrize("length", [0, 1, 20, 60, 200, -2, -1])
def test_cut_dotr_json_is_damage(described: Path, length: int) -> None:
    data = described.read_bytes()
    described.write_bytes(data[:length])
    assert code_of(described) == ("S102" if length in (1,) else "S114")
    described.write_bytes(bytes(len(data)))
    assert code_of(described) == "S114"


def test_every_changed_value_of_dotr_json_is_damage(described: Path) -> None:
    data = json.loads(described.read_text())
    for name in data:
        described.write_text(json.dumps({**data, name: "x"}))
        assert code_of(described) == "S114", name
        described.write_text(json.dumps({key: value for key, value in data.items() if key != name}))
        assert code_of(described) == ("" if name == "checksum" else "S114"), name
        described.write_text(json.dumps({f"{key}x" if key == name else key: value for key, value in data.items()}))
        assert code_of(described) == "S114", name
    described.write_text(json.dumps(data, separators=(",", ":")))
    assert code_of(described) == "", "white space is no content"


def test_dotr_json_of_an_older_release_opens_and_gets_a_checksum(described: Path) -> None:
    data = json.loads(described.read_text())
    del data["checksum"]
    described.write_text(json.dumps(data, indent=1))
    checkpoint = Checkpoint(str(described.parent))
    assert checkpoint.layout == LAYOUT
    checkpoint.switch(LAYOUT)
    assert list(json.loads(described.read_text()))[:2] == ["checksum", "format"]
    assert code_of(described) == ""
