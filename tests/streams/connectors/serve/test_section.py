"""Section `serve` of an output: what is read of it, and what is refused with its place and way out."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from dotr.errors.diagnostics import Refused
from dotr.model.time import Clock
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.outputs import read_outputs
from dotr.streams.connectors.http import server as listening
from dotr.streams.connectors.opening import PublishedOutputs
from dotr.streams.connectors.serve.kept import Keep
from dotr.streams.connectors.serve.section import DocumentReference, ServeDestination, ServerTls
from dotr.streams.sinks.events import OutputTerms
from tests.conftest import Project
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.published import published

pytestmark = pytest.mark.core

PLAIN = "- { path: out.ndjson }"


def configured(project: Project, *sections: str) -> str:
    """The output of `dotr check` for outputs that are served; empty where nothing is wrong."""
    outputs = "\n  ".join(section if section.startswith("-") else f"- {{ serve: {{ {section} }} }}" for section in sections)
    project.write("c.yaml", project.read("c.yaml").partition("output:")[0] + f"output:\n  {outputs}\nengine: local\n")
    answer = project.dotr("check", "c.yaml")
    return answer.err if answer.code == 2 else ""


def destination(project: Project, section: str) -> ServeDestination:
    assert configured(project, section) == ""
    (output,) = read_outputs(read_config("c.yaml"), [], on_spark=False).events
    assert isinstance(output.destination, ServeDestination)
    return output.destination


@pytest.mark.parametrize(
    ("section", "address", "base"),
    [
        ("listen: 8080", "127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("listen: '8080/fire'", "127.0.0.1:8080/fire", "http://127.0.0.1:8080/fire/"),
        ("listen: '8080/fire/'", "127.0.0.1:8080/fire", "http://127.0.0.1:8080/fire/"),
        ("listen: '127.0.0.1:8080/'", "127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("listen: '[::1]:8080/a/b'", "[::1]:8080/a/b", "http://[::1]:8080/a/b/"),
        ("listen: '0.0.0.0:8080/f', open: true", "0.0.0.0:8080/f", "http://0.0.0.0:8080/f/"),
        ("listen: 8080, base: 'https://data.example/fire/'", "127.0.0.1:8080", "https://data.example/fire/"),
        ("listen: '8080/%C3%A9'", "127.0.0.1:8080/%C3%A9", "http://127.0.0.1:8080/%C3%A9/"),
    ],
)
def test_addresses(project: Project, section: str, address: str, base: str) -> None:
    found = destination(project, section)
    assert (f"{found.listen.authority}{found.listen.path}", found.base, str(found)) == (address, base, base)


def test_settings(project: Project) -> None:
    project.write("schema.ttl", "<http://e/A> a <http://www.w3.org/2000/01/rdf-schema#Class> .")
    found = destination(
        project,
        "listen: 8080, keep: { elements: 300, time: 1 h, bytes: 2 KiB }, clients: 7, "
        "origins: ['https://Map.example', 'http://localhost:3000'], "
        "linger: 10 min, tokens: '${READ}', "
        "about: { title: T, license: 'https://l.example/', tbox: schema.ttl, shape: 'https://s.example/x' }",
    )
    assert (found.keep, found.clients, found.linger) == (Keep(300, 3_600_000_000, 2_048), 7, 600_000_000)
    assert found.origins == {"https://map.example", "http://localhost:3000"}
    about = found.about
    assert (about.title, about.license) == ("T", "https://l.example/")
    assert (about.tbox, about.shape) == (DocumentReference(path="schema.ttl"), DocumentReference(iri="https://s.example/x"))
    plain = destination(project, "listen: 8080")
    assert (plain.keep, plain.about.title, plain.linger, plain.tokens) == (Keep(1_000), "small", 0, None)
    assert destination(project, "listen: 8080, keep: { time: 1 min }").keep == Keep(None, 60_000_000, None)


@pytest.mark.parametrize(
    ("section", "problem", "hint"),
    [
        ("listen: '0.0.0.0:8080'", "C204 0.0.0.0 is not loopback: everybody who reaches it could read", "tokens: ${NAME}"),
        ("listen: 8080, tokens: '${T}', open: true", "C204 open serves readers without a token, and there are tokens", "Leave one"),
        ("listen: 8080, tokens: secret", "C225", "${"),
        ("listen: '8080//a'", "C204 //a is no path of a URL", "127.0.0.1:8080/fire"),
        ("listen: '8080/a/../b'", "C204 /a/../b is no path of a URL", ""),
        ("listen: '8080/a{b}'", "C204 /a{b} is no path of a URL", ""),
        ("listen: '8080/%zz'", "C204 /%zz is no path of a URL", ""),
        ("listen: '8080/é'", "C204 /é is no path of a URL", ""),
        ("listen: 'x'", "C203", ""),
        ("listen: 70000", "C203", ""),
        ("listen: '8080/a?b'", "C203", ""),
        ("base: 'http://h/'", "C202 output.0.serve.listen is missing", ""),
        ("listen: 8080, base: 'https://h/fire'", "C204 base has no / at its end", "Write https://h/fire/."),
        ("listen: 8080, base: 'https://h/fire/?a=/'", "C204 base has a query or a fragment", ""),
        ("listen: 8080, base: 'https://h/#/'", "C204 base has a query or a fragment", ""),
        ("listen: 8080, base: 'fire/'", "C204 fire/ is no IRI of http or https", ""),
        ("listen: 8080, base: 'urn:fire:/'", "C204 urn:fire:/ is no IRI of http or https", ""),
        ("listen: 8080, base: 'http://a b/'", "C204 http://a b/ is no IRI of http or https", ""),
        ("listen: 8080, base: 'http://u:p@h/'", "C2", ""),
        ("listen: 8080, base: 'HTTPS://h/'", "C204 HTTPS://h/ is no IRI of http or https", ""),
        ("listen: 8080, base: 'https://h/a/../b/'", "C204 https://h/a/../b/ is no IRI of http or https", ""),
        ("listen: 8080, base: 'https://h/%zz/'", "C204 https://h/%zz/ is no IRI of http or https", ""),
        ("listen: 8080, keep: { elements: 0 }", "C204 keep.elements is below 1", "1 element"),
        ("listen: 8080, keep: { time: 0 s }", "C204 keep.time is below 1", "1 h"),
        ("listen: 8080, keep: { bytes: 0 }", "C203", "10 GiB"),
        ("listen: 8080, keep: { pages: 1 }", "C201 unknown key pages", ""),
        ("listen: 8080, clients: 0", "C203", ""),
        ("listen: 8080, linger: soon", "C203", ""),
        ("listen: 8080, origins: ['https://a.example/']", "C204 https://a.example/ is no origin of a web page", "scheme and a host"),
        ("listen: 8080, about: { license: CC-BY }", "C204 CC-BY is no IRI of a license", ""),
        ("listen: 8080, about: { tbox: none.ttl }", "C301", "none.ttl"),
        ("listen: 8080, tls: { certificate: c.pem, key: k.pem }", "C301 cannot read c.pem", ""),
        ("- { serve: { listen: 8080 }, format: ndjson }", "C204 what is served has every format", "Leave format out"),
        ("- { serve: { listen: 8080 }, path: out }", "C204 path and serve exclude each other", ""),
        ("- { serve: }", "C202 output.0.serve is empty", "It needs listen."),
    ],
)
def test_mistakes_are_refused(project: Project, section: str, problem: str, hint: str) -> None:
    told = configured(project, section)
    assert problem in told
    assert hint in told
    assert "c.yaml:" in told
    assert "secret" not in told.replace("a secret", "")


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ("listen: 8080", "listen: '127.0.0.1:8080/'", "C204 two outputs are served at 127.0.0.1:8080/"),
        ("listen: '8080/a'", "listen: '8080/a/'", "C204 two outputs are served at 127.0.0.1:8080/a"),
        ("listen: 8080", "listen: '8080/elements'", "C204 /elements is a resource of the stream at /"),
        ("listen: '8080/a/ldes/b'", "listen: '8080/a'", "C204 /a/ldes is a resource of the stream at /a"),
        ("listen: '8080/r%61'", "listen: '8080/ra'", "C204 two outputs are served at 127.0.0.1:8080/ra"),
        ("listen: '8080/a/%6Cdes'", "listen: '8080/%61'", "C204 /a/ldes is a resource of the stream at /a"),
        ("listen: '8080/a'", "listen: '8080/a/-12-0'", "C204 /a/-12-0 is a resource of the stream at /a"),
        ("listen: 8080, base: 'https://h/x/'", "listen: '8081/b', base: 'https://h/x/'", "C204 two outputs have the base https://h/x/"),
        ("listen: 8080", "listen: 8081, base: 'http://127.0.0.1:8080/'", "C204 two outputs have the base http://127.0.0.1:8080/"),
        ("listen: '8080/a'", "listen: '8080/b'", ""),
        ("listen: 8080", "listen: '8080/b'", ""),
        ("listen: '8080/a'", "listen: '8081/a'", ""),
    ],
)
def test_streams_at_one_address(project: Project, first: str, second: str, problem: str) -> None:
    told = configured(project, first, second)
    assert (problem in told) if problem else not told


def test_inputs_are_not_served(project: Project) -> None:
    project.change("c.yaml", "path: a.ndjson", "serve: { listen: 8080 }")
    told = project.refused("check", "c.yaml")
    assert "C201 unknown key serve" in told
    assert "C202 input.0.path is missing" in told


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate, its key, the same key with a password, and another key."""
    folder = tmp_path_factory.mktemp("tls")
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    environment = {**os.environ, "OPENSSL_CONF": ""}
    for words in (
        [*made.split(), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
        ["openssl", "ec", "-in", "key.pem", "-aes256", "-passout", "pass:x", "-out", "locked.pem"],
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "other.pem"],
    ):
        subprocess.run(words, cwd=folder, check=True, capture_output=True, env=environment)
    return folder


@pytest.mark.parametrize(("certificate", "key"), [("cert.pem", "other.pem"), ("cert.pem", "locked.pem"), ("key.pem", "key.pem")])
def test_unusable_certificate_is_refused(project: Project, certificates: Path, certificate: str, key: str) -> None:
    told = configured(project, f"listen: 8080, tls: {{ certificate: {certificates / certificate}, key: {certificates / key} }}")
    assert "C301" in told
    assert "without a password" in told


def test_stream_over_tls(project: Project, certificates: Path) -> None:
    port = free_port()
    tls = f"tls: {{ certificate: {certificates / 'cert.pem'}, key: {certificates / 'key.pem'} }}"
    found = destination(project, f"listen: '{port}/fire', {tls}")
    assert found.base == f"https://127.0.0.1:{port}/fire/"
    told = configured(project, f"listen: '{port}/a', {tls}", f"listen: '{port}/b'")
    assert f"C204 outputs at 127.0.0.1:{port} have different certificates" in told


def test_port_in_use_is_refused(project: Project) -> None:
    port = free_port()
    assert configured(project, f"listen: {port}") == ""
    outputs = read_outputs(read_config("c.yaml"), [], on_spark=False).events
    with PublishedOutputs(outputs):
        with pytest.raises(Refused) as refused:
            PublishedOutputs(outputs)
        (problem,) = refused.value.diagnostics
        assert (problem.code, problem.message) == ("C228", f"output 0 cannot listen at http://127.0.0.1:{port}: address already in use")
        project.write("out.ndjson", "")
        told = project.refused("run", "c.yaml")
        assert "C228" in told
        assert "c.yaml:" in told


def test_readers_reach_a_stream_over_tls_alone(project: Project, certificates: Path) -> None:
    port = free_port()
    tls = f"tls: {{ certificate: {certificates / 'cert.pem'}, key: {certificates / 'key.pem'} }}"
    assert configured(project, f"listen: '{port}/fire', {tls}") == ""
    outputs = read_outputs(read_config("c.yaml"), [], on_spark=False).events
    with PublishedOutputs(outputs) as published:
        published.begin(OutputTerms(Clock()))
        trusting = ssl.create_default_context(cafile=str(certificates / "cert.pem"))
        for host in ("127.0.0.1", "localhost"):
            with urlopen(f"https://{host}:{port}/fire/elements", context=trusting, timeout=PATIENCE) as answer:
                assert (answer.status, answer.headers["Server"]) == (200, "dotr")
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urlopen(f"https://127.0.0.1:{port}/fire/elements", timeout=PATIENCE)
        with pytest.raises((URLError, OSError)):
            urlopen(f"http://127.0.0.1:{port}/fire/elements", timeout=PATIENCE)


def test_handshakes_that_do_not_end_give_way(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_HANDSHAKES", 8)
    tls = ServerTls(str(certificates / "cert.pem"), str(certificates / "key.pem"))
    with published(tls=tls) as stream, ExitStack() as stack:
        listen = stream.stream.destination.listen
        silent = [stack.enter_context(socket.create_connection((listen.host, listen.port), PATIENCE)) for _ in range(40)]
        trusting = ssl.create_default_context(cafile=str(certificates / "cert.pem"))
        with urlopen(f"{stream.address}elements", context=trusting, timeout=PATIENCE) as answer:
            assert answer.status == 200
        silent[30].settimeout(5)
        with suppress(ConnectionResetError):
            assert silent[30].recv(1) == b""
