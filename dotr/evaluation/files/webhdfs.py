"""Store of the files of HDFS, over the HTTP of its name node and data nodes (WebHDFS).

Idea: a file is written under a temporary name and renamed, which replaces a file in one step of the
name node, or fails where there is one. The number of a file (inode) never comes back, so it is the
tag, and a file is read, and moved, by its number: never another one of the same name.

HDFS has no put if unchanged. The writer that may replace the file number 17 of `dotr.json` is the
one that makes the file `.dotr.json.17.next`, with the new content, before number 17 is replaced;
then it moves that file over `dotr.json`. Where it ends in between, the next writer does so for it.
Invariant: while `dotr.json` is number 17, whoever moves a file over it moves the one `.next` of 17,
by its number. A `.next` that was made later is of a number that is gone, and nobody moves it.
"""

from __future__ import annotations

import errno
import getpass
import http.client
import json
import os
import re
import ssl
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import IO, Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from dotr.evaluation.files.environment import hadoop_settings, revealed
from dotr.evaluation.files.interface import HDFS, RETRY_SECONDS, Entry, StorageSettings, StoredRange, store_error
from dotr.evaluation.files.private_files import TEMPORARY

_UNFINISHED: Final = re.compile(rf"\..+(?:{TEMPORARY}|\.\d+\.next)", re.DOTALL)
_PORT: Final = 9870
_SILENCE_SECONDS: Final = 30
_IN_MEMORY: Final = 1 << 23
_PASSING: Final = ("StandbyException", "RetriableException", "SafeModeException", "IOException")
_NUMBERS: Final = {
    "FileNotFoundException": errno.ENOENT,
    "FileAlreadyExistsException": errno.EEXIST,
    "AccessControlException": errno.EACCES,
    "SecurityException": errno.EACCES,
    "InvalidToken": errno.EACCES,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "UnresolvedPathException": errno.ENOTDIR,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    "UnknownHostException": errno.ENODEV,
}


class _Response(NamedTuple):
    status: int
    body: bytes
    location: str | None

    @property
    def exception(self) -> str:
        """The name of the exception of Java that an answer tells; empty for none."""
        try:
            return str(json.loads(self.body)["RemoteException"]["exception"])
        except (ValueError, KeyError, TypeError):
            return ""


class WebHdfs:
    """Files of one HDFS, by the user of Hadoop's clients."""

    def __init__(self, authority: str, settings: StorageSettings) -> None:
        own = settings.get(HDFS, {})
        self._root = f"hdfs://{authority}"
        self._nodes = [each.strip().rstrip("/") for each in own.get("webhdfs", "").split(",") if each.strip()] or name_nodes(
            authority, hadoop_settings()
        )
        self._seconds = float(settings.get("retry", {}).get("seconds", RETRY_SECONDS))
        if not self._nodes:
            raise store_error(errno.EINVAL, "no name node is known: write hdfs://HOST/…, or storage.hdfs.webhdfs", self._root)
        self._user = own.get("user") or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._token = own.get("token", "")

    def check(self) -> None:
        """Ask for the root folder."""
        self._json("GET", "", "GETFILESTATUS")

    def part(self, key: str, start: int, stop: int | None, tag: str) -> StoredRange:
        found = Entry(key, int(tag.rpartition("-")[2]), tag) if tag else self.look(key)
        if found is None:
            raise self._error(errno.ENOENT, key)
        end = found.size if stop is None else min(stop, found.size)
        if start >= end:
            return StoredRange(b"", found.size, found.tag)
        try:
            data = self._request("GET", key, "OPEN", named=_numbered(found.tag), offset=str(start), length=str(end - start)).body
        except FileNotFoundError:
            if not tag:  # replaced between the two requests
                return self.part(key, start, stop, "")
            raise store_error(errno.ESTALE, "it was replaced while it was read", f"{self._root}/{key}") from None
        if len(data) != end - start:
            raise self._error(errno.EIO, key)
        return StoredRange(data, found.size, found.tag)

    def look(self, key: str) -> Entry | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            status = self._json("GET", key, "GETFILESTATUS")["FileStatus"]
            return _entry(key, status) if status["type"] == "FILE" else None
        return None

    def list(self, key: str, recursive: bool) -> Iterator[Entry]:
        for name, status in sorted(self._statuses(key)):
            below = f"{key}/{name.rstrip('/')}" if key else name.rstrip("/")
            if status["type"] == "FILE" and not _UNFINISHED.fullmatch(name):
                yield _entry(below, status)
            elif status["type"] == "DIRECTORY" and recursive:
                yield from self.list(below, recursive)

    def _statuses(self, key: str) -> Iterator[tuple[str, Any]]:
        """The entries of a folder; names of folders end with a slash: `a.b` is before what is in `a`."""
        after = ""
        while True:
            try:
                found = self._json("GET", key, "LISTSTATUS_BATCH", startafter=after)["DirectoryListing"]
            except (FileNotFoundError, NotADirectoryError):
                return
            statuses = found["partialListing"]["FileStatuses"]["FileStatus"]
            for status in statuses:
                if status["pathSuffix"]:  # a file lists itself, without a name
                    yield status["pathSuffix"] + ("/" if status["type"] == "DIRECTORY" else ""), status
            if not statuses or not found["remainingEntries"]:
                return
            after = statuses[-1]["pathSuffix"]

    def put(self, key: str, data: Iterable[bytes]) -> str:
        made = self._written(key, data)
        self._move(made, key, "OVERWRITE")
        return made.tag

    def put_new(self, key: str, data: bytes) -> str | None:
        made = self._written(key, [data])
        if self._move(made, key, "NONE"):
            return made.tag
        self.remove(made.key)
        return None

    def put_unchanged(self, key: str, data: bytes, tag: str) -> str | None:
        found = self.look(key)
        if found is None or found.tag != tag:
            return None
        made = self._written(key, [data])
        following = _beside(key, f"{tag.partition('-')[0]}.next")
        is_first = self._move(made, following, "NONE")
        if not is_first:
            self.remove(made.key)
        other = made if is_first else self.look(following)  # looked for before the file itself: see the invariant above
        found = self.look(key)
        if other is not None and found is not None and found.tag == tag:
            self._move(other, key, "OVERWRITE")
        elif is_first and (found is None or found.tag != made.tag):
            with suppress(FileNotFoundError):  # moved by another writer, and replaced since
                self.remove(_numbered(made.tag))
                return None
        return made.tag if is_first else None

    def remove(self, key: str) -> None:
        self._request("DELETE", key, "DELETE", recursive="false")

    def remove_below(self, key: str) -> None:
        self._request("DELETE", key, "DELETE", recursive="true")

    def _written(self, key: str, data: Iterable[bytes]) -> Entry:
        """A new file beside another one. It is complete before it is sent, so that it can be sent again."""
        temporary = _beside(key, f"{token_hex(8)}.tmp")
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as content:
            content.writelines(data)
            self._request("PUT", key, "CREATE", content, named=temporary, overwrite="true")
        found = self.look(temporary)
        if found is None:
            raise self._error(errno.ENOENT, key)
        return found

    def _move(self, file: Entry, key: str, option: str) -> bool:
        """Rename a file by its number. True if it has the new name, or had it: the answer to an earlier
        request may have been lost."""
        try:
            self._request("PUT", key, "RENAME", named=_numbered(file.tag), destination=f"/{key}", renameoptions=option)
            return True
        except FileNotFoundError:
            return True  # it was moved, and replaced since
        except FileExistsError:
            found = self.look(key)
            return found is not None and found.tag == file.tag

    def _json(self, method: str, key: str, operation: str, **parameters: str) -> Any:
        answer = self._request(method, key, operation, None, "", **parameters)
        try:
            return json.loads(answer.body)
        except ValueError:
            raise store_error(errno.EPROTO, f"no WebHDFS answers at {self._nodes[0]}", self._root) from None

    def _request(
        self, method: str, key: str, operation: str, content: IO[bytes] | None = None, named: str = "", **parameters: str
    ) -> _Response:
        """The answer to an operation, of the data node to which the name node refers.

        `named` is the key that is sent in place of the file's own, which errors name. The
        request is repeated while HDFS fails or is silent.
        """
        until, pause, reason = time.monotonic() + self._seconds, 0.1, None
        own = {"delegation": revealed(self._token)} if self._token else {"user.name": self._user}
        target = f"/webhdfs/v1/{quote(named or key)}?{urlencode({'op': operation, **own, **parameters})}"
        while True:
            for node in list(self._nodes):
                try:
                    answer = _sent(node, method, target, None)
                    if answer.status == 307 and answer.location is not None:
                        place = urlsplit(answer.location)
                        answer = _sent(f"{place.scheme}://{place.netloc}", method, f"{place.path}?{place.query}", content)
                except TimeoutError:
                    reason = store_error(errno.ETIMEDOUT, "HDFS does not answer in time", f"{self._root}/{key}")
                    continue
                except (OSError, http.client.HTTPException):
                    reason = store_error(errno.EHOSTUNREACH, "HDFS cannot be reached", f"{self._root}/{key}")
                    continue
                if answer.status < 300:
                    self._nodes.sort(key=lambda each, node=node: each != node)  # type: ignore[misc]
                    return answer
                reason = self._error(_NUMBERS.get(answer.exception, errno.EIO), key, answer)
                if answer.status < 500 and answer.exception not in _PASSING:
                    raise reason
            if time.monotonic() + pause > until:
                raise reason if reason is not None else self._error(errno.EIO, key)
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _error(self, number: int, key: str, answer: _Response | None = None) -> OSError:
        told = f" ({' '.join(filter(None, (str(answer.status), answer.exception)))})" if answer else ""
        reason = os.strerror(number)
        if answer is not None and answer.status == 401:
            number, reason = errno.EACCES, "HDFS asks who we are: write a delegation token as storage.hdfs.token"
        elif number == errno.EACCES:
            reason = f"HDFS refuses it to {'the token' if self._token else f'the user {self._user}'}{told}"
        elif number == errno.EIO:
            reason = f"HDFS fails{told}"
        return store_error(number, reason, f"{self._root}/{key}" if key else self._root)


def name_nodes(authority: str, settings: Mapping[str, str]) -> list[str]:
    """The addresses of the name nodes of an HDFS, several where one stands by.

    >>> name_nodes("nn:8020", {})
    ['http://nn:9870']
    >>> name_nodes("", {"fs.defaultFS": "hdfs://lake", "dfs.ha.namenodes.lake": "a,b",
    ...     "dfs.namenode.http-address.lake.a": "h1:9870", "dfs.namenode.http-address.lake.b": "h2:9870"})
    ['http://h1:9870', 'http://h2:9870']
    """
    default = urlsplit(settings.get("fs.defaultFS", ""))
    name = authority or (default.netloc if default.scheme == HDFS else "")
    is_secure = settings.get("dfs.http.policy") == "HTTPS_ONLY"
    scheme = "https" if is_secure else "http"
    of_node = f"dfs.namenode.{scheme}-address"
    nodes = [settings.get(f"{of_node}.{name}.{each.strip()}", "") for each in settings.get(f"dfs.ha.namenodes.{name}", "").split(",")]
    if any(nodes):
        return [f"{scheme}://{each}" for each in nodes if each]
    host = name.rpartition("@")[2].partition(":")[0]
    configured = settings.get(of_node, "") if name == default.netloc else ""
    address = configured.replace("0.0.0.0", host) or (f"{host}:{_PORT + is_secure}" if host else "")
    return [f"{scheme}://{address}"] if address else []


def _sent(node: str, method: str, target: str, content: IO[bytes] | None) -> _Response:
    place = urlsplit(node)
    host, port = place.hostname or "", place.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=_SILENCE_SECONDS, context=ssl.create_default_context())
        if place.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=_SILENCE_SECONDS)
    )
    try:
        headers = {"Content-Type": "application/octet-stream"}
        if content is not None:
            headers["Content-Length"] = str(content.seek(0, os.SEEK_END))
            content.seek(0)
        connection.request(method, target, content, headers)
        response = connection.getresponse()
        return _Response(response.status, response.read(), response.getheader("Location"))
    finally:
        connection.close()


def _entry(key: str, status: Any) -> Entry:
    return Entry(key, status["length"], f"{status['fileId']}-{status['modificationTime']}-{status['length']}")


def _numbered(tag: str) -> str:
    """The key of a file by its number, whatever its name."""
    return f".reserved/.inodes/{tag.partition('-')[0]}"


def _beside(key: str, ending: str) -> str:
    """The key of a hidden file in the same folder.

    >>> _beside("a/dotr.json", "17.next"), _beside("a", "0.tmp")
    ('a/.dotr.json.17.next', '.a.0.tmp')
    """
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{ending}"
