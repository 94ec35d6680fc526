"""A mosquitto broker on loopback and a free port, with its files in one folder: started, stopped, killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.patience import PATIENCE

PROGRAM: Final = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
MISSING: Final = "mosquitto is missing: apt-get install mosquitto mosquitto-clients"


def skip_without_mosquitto(items: Iterable[pytest.Item]) -> None:
    """Skip the tests marked `mosquitto` if the broker is missing; if CI is set, they run and fail."""
    if PROGRAM is None and not os.environ.get("CI"):
        for item in items:
            if item.get_closest_marker("mosquitto"):
                item.add_marker(pytest.mark.skip(reason=MISSING))


def free_port() -> int:
    """A port on loopback that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until(holds: Callable[[], object], what: str = "", seconds: float = PATIENCE) -> None:
    """Wait until something holds; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what or "it did not come to hold"
        time.sleep(0.01)


class Mosquitto:
    """A broker with unbounded queues.

    `users` are names with passwords; without users, clients need no credentials. `tls` is a folder with `server.crt` and `server.key`
    (`make_certificates`); `settings` are further lines of the configuration. With `keeps`, sessions and messages are written to disk after
    each change (some ms), so that a kill loses nothing; otherwise nothing outlives the process.
    """

    def __init__(
        self,
        folder: Path,
        users: Mapping[str, str] | None = None,
        tls: Path | None = None,
        settings: Sequence[str] = (),
        *,
        keeps: bool = False,
    ) -> None:
        assert PROGRAM is not None, MISSING
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"{'mqtts' if tls else 'mqtt'}://localhost:{self.port}"
        self._tls = tls
        self._keeps = keeps
        self._user = next(iter(users.items()), None) if users else None
        lines = [f"listener {self.port} 127.0.0.1", f"user {os.environ.get('USER', 'root') if os.getuid() else 'root'}"]
        if users:
            self.set_users(users)
            lines += ["allow_anonymous false", f"password_file {folder / 'passwords'}"]
        else:
            lines.append("allow_anonymous true")
        if keeps:
            lines += ["persistence true", f"persistence_location {folder}/", "autosave_interval 1", "autosave_on_changes true"]
        if tls:
            lines += [f"certfile {tls / 'server.crt'}", f"keyfile {tls / 'server.key'}"]
        lines += [f"log_type {kind}" for kind in ("error", "warning", "notice", "subscribe")]
        if not any(line.startswith("max_queued_messages") for line in settings):
            lines.append("max_queued_messages 0")
        self._configuration = folder / "mosquitto.conf"
        self._configuration.write_text("\n".join([*lines, *settings, ""]))
        self._process: subprocess.Popen[bytes] | None = None

    def set_users(self, users: Mapping[str, str]) -> None:
        """Replace the users, from the next start on."""
        passwords = self.folder / "passwords"
        passwords.write_text("".join(f"{name}:{word}\n" for name, word in users.items()))
        subprocess.run(["mosquitto_passwd", "-U", str(passwords)], check=True)
        self._user = next(iter(users.items()))

    def start(self) -> Self:
        """Start the broker, and wait until it listens."""
        assert PROGRAM is not None
        with (self.folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen([PROGRAM, "-c", str(self._configuration)], stdout=log, stderr=log)
        wait_until(self._listens, f"mosquitto does not listen: {self.log}")
        return self

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def log(self) -> str:
        return (self.folder / "mosquitto.log").read_text(errors="replace")

    def wait_for_subscription(self, client_id: str, times: int = 1) -> None:
        """Wait until a client has subscribed `times` times since the first start."""
        wait_until(lambda: self.log.count(f": {client_id} ") >= times, f"{client_id} does not subscribe")

    def kill(self) -> None:
        """Kill the broker with -9. With `keeps`, waits until acknowledged messages, which are written later, are on disk."""
        if self._process is not None and self._keeps:
            saved = self.folder / "mosquitto.db"
            before = saved.stat().st_mtime_ns if saved.exists() else 0
            self._process.send_signal(signal.SIGUSR1)
            wait_until(lambda: saved.exists() and saved.stat().st_mtime_ns > before, "mosquitto does not save")
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the broker orderly."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *reason: object) -> None:
        self.stop()

    def client(self, name: str = "", received: list[MQTTMessage] | None = None, **connect: object) -> Client:
        """A connected client with a running thread, logged in as the first user, if any. Its messages are appended to `received`."""
        client = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
        client.max_inflight_messages_set(1000)
        if self._user is not None:
            client.username_pw_set(*self._user)
        if self._tls is not None:
            client.tls_set_context(ssl.create_default_context(cafile=str(self._tls / "ca.crt")))
        if received is not None:
            client.on_message = lambda client, data, message: received.append(message)
        client.connect("localhost", self.port, **connect)  # type: ignore[arg-type]
        client.loop_start()
        wait_until(client.is_connected, "the broker lets nobody in")
        return client

    def publish(
        self,
        *messages: tuple[str, str | bytes],
        qos: int = 1,
        retain: bool = False,
        content_type: str = "",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Publish messages (topic, payload) in this order, and wait until the broker has them."""
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if content_type:
            properties.ContentType = content_type
        if headers:
            properties.UserProperty = list(headers)
        client = self.client()
        try:
            sent = [client.publish(topic, body, qos, retain, properties) for topic, body in messages]
            for info in sent:
                info.wait_for_publish(PATIENCE)
                assert info.is_published()
        finally:
            client.disconnect()
            client.loop_stop()

    @contextmanager
    def subscribed(self, *topics: str, qos: int = 1, client_id: str = "") -> Iterator[list[MQTTMessage]]:
        """The messages on these topics while the context is open; with a `client_id`, also those since the last such context."""
        received: list[MQTTMessage] = []
        ready: list[int] = []
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        session.SessionExpiryInterval = 3600 if client_id else 0
        client = self.client(client_id, received, clean_start=not client_id, properties=session)
        client.on_subscribe = lambda client, data, mid, codes, properties: ready.append(mid)
        client.subscribe([(topic, qos) for topic in topics])
        wait_until(lambda: ready)
        try:
            yield received
        finally:
            client.disconnect()
            client.loop_stop()


def make_certificates(folder: Path) -> Path:
    """A folder with `ca.crt`, and `server.crt` and `server.key` for localhost signed by it."""
    folder.mkdir(parents=True, exist_ok=True)

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.crt", "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", *key[:-2], "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", *signed, "-out", "server.crt")
    return folder
