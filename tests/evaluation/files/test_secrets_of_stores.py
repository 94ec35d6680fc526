"""No secret of a store is in an error, a log or the job of a run, whichever way the store fails."""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dotr.evaluation.files.stores import Location, configure_storage
from dotr.runtimes.spark.exchange.job import Job
from dotr.streams.storage import StorageSection, store_settings
from tests.support.object_server import REGION, S3, broken_connection

VARIABLE = "DOTR_TEST_STORE_SECRET"
OWN = f"${{{VARIABLE}}}"
SECRETS = st.text(st.sampled_from("abcXYZ019+/=&%?#<> \"'\\{}:@"), min_size=8, max_size=40)
WAYS = ("refuses", "403", "500", "cut", "short", "silent", "page")


@pytest.fixture(autouse=True)
def _own_settings() -> Iterator[None]:
    yield
    configure_storage({})
    os.environ.pop(VARIABLE, None)


def sections(endpoint: str) -> dict[str, dict[str, dict[str, str]]]:
    """A section of `storage` for each kind of secret, with the URL of a file."""
    s3 = {"endpoint_override": endpoint, "region": REGION, "access_key_id": "AKIATEST"}
    return {
        "s3://lake/a": {"s3": {**s3, "secret_access_key": OWN}},
        "s3a://lake/b": {"s3": {**s3, "secret_access_key": OWN, "session_token": OWN}},
        "gs://lake/a": {"gs": {"endpoint_override": endpoint, "service_account_key": OWN}},
        "abfss://lake@account.dfs.core.windows.net/a": {"abfss": {"endpoint_override": endpoint, "account_key": OWN}},
        "abfss://lake@other.dfs.core.windows.net/a": {"abfss": {"endpoint_override": endpoint, "sas_token": OWN}},
        "hdfs://lake/a": {"hdfs": {"webhdfs": endpoint, "token": OWN}},
    }


def texts(act: Callable[[], object]) -> str:
    """All that an error shows."""
    try:
        act()
    except Exception as error:
        shown = [str(error), repr(error), *map(repr, error.args), *traceback.format_exception(error)]
        return "\n".join([*shown, str(getattr(error, "filename", ""))])
    return ""


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRETS, way=st.sampled_from(WAYS), number=st.integers(0, 5))
def test_no_secret_is_told(s3: S3, caplog: pytest.LogCaptureFixture, secret: str, way: str, number: int) -> None:
    os.environ[VARIABLE] = secret
    caplog.set_level(logging.DEBUG, "dotr")
    with broken_connection(s3.endpoint, lambda method, path: "" if way in ("refuses", "page") else way) as endpoint:
        url, section = list(sections("http://127.0.0.1:9" if way == "silent" else endpoint).items())[number]
        stores = dict(store_settings(StorageSection.model_validate({**section, "retry": 0})))
        job = Job("{}", (), (), "SECOND", False, 1, 2, 2, 1000, 2, "x", storage=json.dumps(stores)).to_json()
        configure_storage(stores)
        file = Location(url)
        acts: tuple[Callable[[], object], ...] = (
            file.check,
            file.read,
            file.look,
            lambda: list(file.parent.list(recursive=True)),
            lambda: file.put(b"1"),
            lambda: file.put_new(b"1"),
            lambda: file.put_unchanged(b"1", '"0"'),
            file.remove,
            file.remove_below,
        )
        told = "\n".join([job, repr(stores), *map(texts, acts), caplog.text])
        for each in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]):
            assert each not in told, (url, way)
