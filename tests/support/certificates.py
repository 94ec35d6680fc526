"""Certificates that tests make."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


def certificate(folder: Path) -> tuple[str, ssl.SSLContext]:
    """A self-signed certificate of 127.0.0.1, and the settings of a server with it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=a",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "ca.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return str(folder / "ca.pem"), context
