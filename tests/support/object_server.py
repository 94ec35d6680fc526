"""S3 for the tests: moto's server in a thread of the test process, on loopback and a free port, and a connection to it that fails.

The fixture `s3` (tests/conftest.py) is one server per test session and xdist worker, so that buckets must have unique names (`S3.bucket`).
Its credentials are those of the environment, under names of their own, as `storage` has them; moto takes any, unless `checked` is used.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

INSTALL: Final = "pip install 'dotr[objects,test]'"
ACCESS_VARIABLE: Final = "DOTR_TEST_S3_KEY"
SECRET_VARIABLE: Final = "DOTR_TEST_S3_SECRET"
SECRET: Final = "staple-battery-4e8a"
"""The secret key, which no output may contain."""
REGION: Final = "eu-central-1"


@dataclass(frozen=True)
class S3:
    """A server of objects, with the settings of `storage` for it."""

    endpoint: str
    client: Any
    _numbers: Iterator[int] = field(default_factory=count)

    def bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"lake-{next(self._numbers)}"
        self.client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def settings(self, endpoint: str = "", **further: str) -> Mapping[str, Mapping[str, str]]:
        """The settings of `storage`: for another endpoint, or with further ones of S3."""
        own = {"access_key_id": f"${{{ACCESS_VARIABLE}}}", "secret_access_key": f"${{{SECRET_VARIABLE}}}", "region": REGION}
        return {"s3": {"endpoint_override": endpoint or self.endpoint, **own, **further}}

    @property
    def yaml(self) -> str:
        """The line of a configuration."""
        pairs = ", ".join(f'{key}: "{value}"' for key, value in self.settings()["s3"].items())
        return f"storage: {{ s3: {{ {pairs} }} }}\n"

    def put_at_once(self, bucket: str, key: str) -> None:
        """Put an object of one byte without a request."""
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(bucket, key, b"1")

    def user(self, *actions: str) -> Mapping[str, str]:
        """The settings of S3 for a new user with rights to some actions on all buckets, whose key stands in the environment."""
        import boto3

        credentials = {"aws_access_key_id": "AKIATEST", "aws_secret_access_key": SECRET}
        iam = boto3.client("iam", endpoint_url=self.endpoint, region_name=REGION, **credentials)
        name = f"user-{next(self._numbers)}"
        iam.create_user(UserName=name)
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]}
        iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        variable = f"DOTR_TEST_{name.replace('-', '_').upper()}"
        os.environ[variable] = key["SecretAccessKey"]
        return {"access_key_id": key["AccessKeyId"], "secret_access_key": f"${{{variable}}}"}

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Context in which the server checks credentials and rights."""
        self._check_after("0")
        try:
            yield
        finally:
            self._check_after("inf")

    def _check_after(self, requests: str) -> None:
        with urlopen(Request(f"{self.endpoint}/moto-api/reset-auth", requests.encode(), {"Content-Type": "text/plain"}, method="POST")):
            pass

    def keys(self, bucket: str) -> list[str]:
        """The keys of all objects of a bucket."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]


@contextmanager
def running_server() -> Iterator[S3]:
    """A server until the end of the context; tests are skipped where its packages are missing."""
    try:
        import boto3
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        missing = f"{error}; {INSTALL}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        credentials = {"aws_access_key_id": "AKIATEST", "aws_secret_access_key": SECRET}
        yield S3(endpoint, boto3.client("s3", endpoint_url=endpoint, region_name=REGION, **credentials))
    finally:
        server.stop()


_OF_CONNECTIONS: Final = ("content-length", "transfer-encoding", "connection")


class _Connection(BaseHTTPRequestHandler):
    """One request, passed on to the server unless the test breaks it."""

    protocol_version = "HTTP/1.1"
    target = ""
    breaks: Callable[[str, str], str] = staticmethod(lambda method, path: "")

    def _pass(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        wanted = type(self).breaks(self.command, self.path)
        if wanted == "cut":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if wanted.isdecimal():
            self._answer(int(wanted), {}, b"")
            return
        connection = http.client.HTTPConnection(self.target)
        connection.request(self.command, self.path, body, dict(self.headers))
        response = connection.getresponse()
        data = response.read()
        connection.close()
        if wanted == "lost":  # done, and the answer does not arrive
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        kept = {
            name: value
            for name, value in response.getheaders()
            if name.lower() not in ("content-length", "transfer-encoding", "connection")
        }
        if self.command == "HEAD":
            kept["Content-Length"] = response.getheader("Content-Length") or "0"
        if wanted == "short":
            self.send_response(response.status)
            for name, value in {**kept, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self._answer(response.status, kept, data)

    def _answer(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def broken_connection(server: str, breaks: Callable[[str, str], str]) -> Iterator[str]:
    """The endpoint of a connection to a server, of which a test breaks requests.

    `breaks` gets the method and the path of each request, and returns a status to answer with, "cut" (the connection ends before the
    request is passed on), "lost" (after it was, without an answer), "short" (amid the answer), or nothing.
    """
    handler = type("_Broken", (_Connection,), {"target": server.removeprefix("http://"), "breaks": staticmethod(breaks)})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    proxy.daemon_threads = True
    thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield "http://{}:{}".format(*proxy.server_address[:2])
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
