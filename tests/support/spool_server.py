"""A server with a spool alone, to be killed: `python -m tests.support.spool_server PORT FOLDER`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from dotr.runtimes.spark.checkpoint.message_spool import MessageSpool
from dotr.streams.connectors.http.addresses import listen_address
from dotr.streams.connectors.http.source import HttpListen
from dotr.streams.records import Format, InputFile


def main(port: str, folder: str) -> None:
    """Receive until killed."""
    address = listen_address(f"127.0.0.1:{port}/in")
    spool = MessageSpool(InputFile("in", str(address), Format.NDJSON), Path(folder), 1 << 30)
    receiver = HttpListen("in", address, Format.NDJSON, 1 << 20).receiver()
    receiver.start(spool)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
