"""Store of the objects of a bucket or container: S3, Google Cloud Storage, Azure.

Idea: the requests, their signatures and retries are those of the package obstore (Rust's
object_store). A conditional put is repeated here: where the answer to the first request was lost,
a refusal of the second may be due to the first, which the content tells.
Invariant: an error has the status and the code of the answer, and never its text or the request,
which may show credentials.
"""

from __future__ import annotations

import configparser
import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import chain
from typing import Any, Final, TypeVar

from dotr.evaluation.files.environment import hadoop_settings, revealed
from dotr.evaluation.files.interface import OBJECTS, RETRY_SECONDS, Entry, StorageSettings, StoredRange, store_error

_PART: Final = 1 << 25
"""Most bytes of a request that reads."""
_SINGLE: Final = 1 << 23
"""Most bytes of a file that is written by one request."""
_NAMES: Final = {
    "s3": {"endpoint_override": "endpoint", "anonymous": "skip_signature"},
    "gs": {"endpoint_override": "base_url", "anonymous": "skip_signature"},
    "abfss": {"endpoint_override": "endpoint", "anonymous": "skip_signature", "sas_token": "sas_key"},
}
"""Names of settings that obstore calls otherwise."""
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KEYS: Final = ("access_key_id", "secret_access_key", "session_token")
_STATUS: Final = re.compile(r"status code: (\d+)")
_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")
_NO_CREDENTIALS: Final = re.compile(r"169\.254\.|metadata\.google|InstanceMetadata|[Cc]redential|oauth2|TokenRequest|login\.microsoft")
_CONNECTION: Final = re.compile(r"kind: (Connect|Timeout|Request|Interrupted|Unknown|Decode)")
Result = TypeVar("Result")
_PASSING: Final = (errno.EIO, errno.EAGAIN, errno.ETIMEDOUT, errno.EHOSTUNREACH)


class ObjectStore:
    """Objects of one bucket, or container of an account.

    Reading needs the rights to read and to list; writing those to write and to delete.
    """

    def __init__(self, scheme: str, authority: str, settings: StorageSettings) -> None:
        self._root = f"{scheme}://{authority}"
        try:
            import obstore
        except ImportError:
            reason = f"{scheme}:// needs the package obstore: pip install 'dotr[objects]'"
            raise store_error(errno.ENOSYS, reason, self._root) from None
        self._api: Any = obstore
        self._kind = OBJECTS[scheme]
        self._seconds = float(settings.get("retry", {}).get("seconds", RETRY_SECONDS))
        try:
            self._store, self._once = (_client(self._kind, authority, settings.get(self._kind, {}), each) for each in (self._seconds, 0.0))
        except (obstore.exceptions.BaseError, ValueError):
            reason = "the settings of the store cannot be used: has each key the form that the store gives it?"
            raise store_error(errno.EINVAL, reason, self._root) from None

    def check(self) -> None:
        """Ask for one object of the bucket; a user without the right to list all of them may have others."""
        try:
            self._call("", lambda: next(iter(self._api.list(self._store, chunk_size=1)), None))
        except PermissionError as error:  # the right to list the whole bucket is not needed
            if not any(code in str(error) for code in ("AccessDenied", "AuthorizationPermissionMismatch")):
                raise

    def part(self, key: str, start: int, stop: int | None, tag: str) -> StoredRange:
        first = self._range(key, start, _PART + start if stop is None else min(stop, start + _PART), tag)
        end = first.size if stop is None else min(stop, first.size)
        pieces, at = [first.data], start + len(first.data)
        while at < end:
            pieces.append(self._range(key, at, min(at + _PART, end), first.tag).data)
            at += len(pieces[-1])
        return first._replace(data=b"".join(pieces))

    def _range(self, key: str, start: int, stop: int, tag: str) -> StoredRange:
        options: dict[str, object] = {"range": (start, stop)}
        if tag:
            options |= {"version": tag} if self._kind == "gs" else {"if_match": f'"{tag}"'}

        def read() -> StoredRange | None:
            try:
                result = self._api.get(self._store, key, options=options)
                return StoredRange(bytes(result.bytes()), result.meta["size"], self._tag(result.meta))
            except Exception as error:
                if _status(error) != 416 and "StartTooLarge" not in str(error):
                    raise
                return None  # the range begins behind the end

        if start < stop and (part := self._call(key, read)) is not None:
            return part
        found = self.look(key)
        if found is None:
            raise store_error(errno.ENOENT, os.strerror(errno.ENOENT), f"{self._root}/{key}")
        return StoredRange(b"", found.size, found.tag)

    def look(self, key: str) -> Entry | None:
        if not key:
            return None
        with suppress(FileNotFoundError):
            meta = self._call(key, lambda: self._api.head(self._store, key))
            return Entry(key, meta["size"], self._tag(meta))
        return None

    def list(self, key: str, recursive: bool) -> Iterator[Entry]:
        empty = set[str]()
        prefix = key or None
        for meta in self._call(
            key,
            lambda: (
                list(chain.from_iterable(self._api.list(self._store, prefix)))
                if recursive
                else self._api.list_with_delimiter(self._store, prefix)["objects"]
            ),
        ):
            each = Entry(meta["path"], meta["size"], self._tag(meta))
            if each.key == key:
                continue
            if not each.size:
                # Hadoop marks a folder by an empty object a/, which is listed as a: there is no object of that name
                if each.key in empty or self.look(each.key) is None:
                    continue
                empty.add(each.key)
            yield each

    def put(self, key: str, data: Iterable[bytes]) -> str:
        pieces, length = [], 0
        rest = iter(data)
        for piece in rest:
            pieces.append(piece)
            length += len(piece)
            if length > _SINGLE:
                break
        if length <= _SINGLE:
            return self._tag(self._call(key, lambda: self._api.put(self._store, key, b"".join(pieces), use_multipart=False)))
        with self._errors(key):
            parts = (each for each in chain(pieces, rest) if each)
            return self._tag(self._api.put(self._store, key, parts, chunk_size=_SINGLE, max_concurrency=4))

    def put_new(self, key: str, data: bytes) -> str | None:
        return self._put_if(key, data, "create")

    def put_unchanged(self, key: str, data: bytes, tag: str) -> str | None:
        return self._put_if(key, data, {"version": tag} if self._kind == "gs" else {"e_tag": f'"{tag}"'})

    def _put_if(self, key: str, data: bytes, mode: str | Mapping[str, str]) -> str | None:
        refusals = (self._api.exceptions.AlreadyExistsError, self._api.exceptions.PreconditionError)
        was_lost = False

        def put() -> str | None:
            nonlocal was_lost
            try:
                return self._tag(self._api.put(self._once, key, data, mode=mode))
            except refusals:
                return self._own(key, data) if was_lost else None
            except Exception:
                was_lost = True
                raise

        try:
            return self._call(key, put)
        except FileNotFoundError:
            if mode == "create":
                raise
            return None  # S3 answers so where the object was removed

    def _own(self, key: str, data: bytes) -> str | None:
        """The tag of the object if it has the content of a request whose answer was lost."""
        with suppress(FileNotFoundError):
            found = self.part(key, 0, None, "")
            return found.tag if found.data == data else None
        return None

    def remove(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._call(key, lambda: self._api.delete(self._store, key))

    def remove_below(self, key: str) -> None:
        def remove() -> None:
            for found in self._api.list(self._store, key or None):
                self._api.delete(self._store, [meta["path"] for meta in found])

        self._call(key, remove)

    def _tag(self, meta: Any) -> str:
        """The generation of Google's objects, by which alone a put can be bound; otherwise the ETag."""
        return str(meta["version"] if self._kind == "gs" else meta["e_tag"]).strip('"')  # Azure lists it without quotes

    def _call(self, key: str, act: Callable[[], Result]) -> Result:
        """The result of a request, repeated where its answer was cut off or obstore repeats it not."""
        until, pause = time.monotonic() + self._seconds, 0.1
        while True:
            try:
                with self._errors(key):
                    return act()
            except OSError as error:
                if error.errno not in _PASSING or time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    @contextmanager
    def _errors(self, key: str = "") -> Iterator[None]:
        """Context that raises the errors of obstore as those of a store, and all others as they are."""
        try:
            yield
        except Exception as error:
            if type(error).__module__.startswith("obstore") or (isinstance(error, FileNotFoundError) and error.errno is None):
                raise self._error(error, key) from None
            if isinstance(error, ValueError) and "parse path" in str(error):
                raise store_error(errno.EINVAL, "the name has a character that no object may have", f"{self._root}/{key}") from None
            raise

    def _error(self, error: Exception, key: str) -> OSError:
        return _store_error(error, f"{self._root}/{key}" if key else self._root)


def _client(kind: str, authority: str, settings: Mapping[str, str], seconds: float) -> Any:
    from obstore.store import AzureStore, GCSStore, S3Store

    config: Any = {_NAMES[kind].get(key, key): revealed(str(value)) for key, value in settings.items()}
    config = {**(_s3_of_platform() if kind == "s3" else {}), **config}
    endpoint = config.get("endpoint") or config.get("base_url") or next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2}
    further: dict[str, Any] = {
        "client_options": {
            "allow_http": endpoint.startswith("http://"),
            "timeout": timedelta(seconds=30),
            "connect_timeout": timedelta(seconds=5),
        },
        "retry_config": {"max_retries": 100 if seconds else 0, "retry_timeout": timedelta(seconds=seconds), "backoff": backoff},
    }
    if kind == "s3":
        return S3Store(authority, config=config, **further)
    if kind == "gs":
        return GCSStore(authority, config=config, **further)
    container, _, host = authority.partition("@")
    config.setdefault("account_name", host.partition(".")[0])
    return AzureStore(container, config=config, **further)


_S3_OF_HADOOP: Final = {
    "endpoint": "fs.s3a.endpoint",
    "region": "fs.s3a.endpoint.region",
    "access_key_id": "fs.s3a.access.key",
    "secret_access_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
}


def _s3_of_platform() -> dict[str, str]:
    """Settings of S3 in Hadoop's configuration, and the keys that `aws configure` has written for this
    user, but for what obstore reads in the environment."""
    hadoop = hadoop_settings()
    found = {key: hadoop[name] for key, name in _S3_OF_HADOOP.items() if name in hadoop}
    if found.get("endpoint") and "://" not in found["endpoint"]:
        found["endpoint"] = f"https://{found['endpoint']}"
    parser = configparser.RawConfigParser()
    with suppress(configparser.Error, OSError, UnicodeDecodeError):
        parser.read(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials"))
    profile = os.environ.get("AWS_PROFILE", "default")
    own = parser[profile] if parser.has_section(profile) else {}
    found |= {key: own[f"aws_{key}"] for key in _KEYS if f"aws_{key}" in own}
    left_out = {*(_KEYS if "AWS_ACCESS_KEY_ID" in os.environ else ()), *("endpoint" for name in _ENDPOINTS if name in os.environ)}
    return {key: value for key, value in found.items() if key not in left_out and f"AWS_{key.upper()}" not in os.environ}


def _store_error(error: Exception, file: str) -> OSError:
    """The error of obstore without its text, which has the request and the answer.

    >>> error = Exception("Server returned non-2xx status code: 403 Forbidden: <Error><Code>AccessDenied</Code><Token>x</Token>")
    >>> _store_error(error, "s3://lake/a")
    PermissionError(13, 'the store refuses it (403 AccessDenied)')
    """
    text, status = str(error), _status(error)
    code = _CODE.search(text)
    answer = f" ({status}{f' {code[1]}' if code else ''})" if status else ""
    number, reason = errno.EIO, f"the store fails{answer}"
    if code is not None and code[1] in ("NoSuchBucket", "ContainerNotFound"):
        number, reason = errno.ENODEV, f"there is no bucket {file.split('/')[2]}"
    elif _NO_CREDENTIALS.search(text) and (code is None or status not in (403, 404)):
        number, reason = errno.EACCES, "no credentials are found, or those of the environment cannot be used"
    elif status in (401, 403):
        number, reason = errno.EACCES, f"the store refuses it{answer}"
    elif isinstance(error, FileNotFoundError) or status == 404:
        number, reason = errno.ENOENT, os.strerror(errno.ENOENT)
    elif status == 412 or type(error).__name__ == "PreconditionError":
        number, reason = errno.ESTALE, "it was replaced while it was read"
    elif status in (301, 307, 400) or "redirect" in text:
        number, reason = errno.EINVAL, f"the store does not take the request{answer}: are endpoint and region right?"
    elif status in (409, 429, 503):
        number, reason = errno.EAGAIN, f"the store is busy{answer}"
    elif "Timeout" in text or "TimedOut" in text:
        number, reason = errno.ETIMEDOUT, "the store does not answer in time"
    elif not status and _CONNECTION.search(text):
        number, reason = errno.EHOSTUNREACH, "the store cannot be reached"
    return store_error(number, reason, file)


def _status(error: Exception) -> int:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else 0
