"""The HDFS that tests start: what later tests rely on, of WebHDFS and of a data node that is lost."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.hadoop import Hadoop

pytestmark = pytest.mark.hadoop


class _Unfollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def ask(url: str, method: str = "GET", data: bytes | None = None, *, follow: bool = True) -> tuple[int, bytes, str]:
    """Status, body and `Location` of an answer."""
    opener = urllib.request.build_opener(*(() if follow else (_Unfollowed(),)))
    try:
        with opener.open(urllib.request.Request(url, data, method=method), timeout=60) as answer:
            return answer.status, answer.read(), ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers.get("Location") or ""


def create(name: str, data: bytes) -> int:
    """The status of a file that is to be new."""
    told, _, place = ask(f"{name}?op=CREATE&overwrite=false&user.name=root", "PUT", follow=False)
    return ask(place, "PUT", data)[0] if told == 307 else told


def test_a_file_is_created_once_and_outlives_its_data_node(hdfs: Hadoop) -> None:
    name = f"{hdfs.webhdfs}/webhdfs/v1{urlsplit(hdfs.folder()).path}/one"
    assert create(name, b"first") == 201
    assert create(name, b"second") == 403
    assert ask(f"{name}?op=OPEN")[:2] == (200, b"first")
    hdfs.kill_data_node()
    assert ask(f"{name}?op=GETFILESTATUS")[0] == 200, "the name node answers"
    with pytest.raises(urllib.error.URLError, match="refused"):
        ask(f"{name}?op=OPEN")
    hdfs.start_data_node()
    assert ask(f"{name}?op=OPEN")[:2] == (200, b"first")


def test_folders_of_tests_differ(hdfs: Hadoop) -> None:
    assert hdfs.folder() != hdfs.folder()
