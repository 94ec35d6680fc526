"""A command in this process that is stopped by a signal, as by Ctrl-C, once something has happened.

On Spark it uses the session of this process, so that it takes a fifth of the CPU of a process with a JVM of its own. That is for what
has to be stopped and to go on; what is to be killed needs its own process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence

from dotr.commands import main


def run_until(arguments: Sequence[str], world: Callable[[], None], by: signal.Signals = signal.SIGINT) -> int:
    """The exit code of a command that runs while `world` acts in a thread, and is sent a signal when `world` returns or fails.

    `world` must not return before the command handles the signal: it waits for what the command does. Raises what `world` raises.
    """
    ended = threading.Event()
    failed: list[BaseException] = []

    def act() -> None:
        try:
            world()
        except BaseException as error:
            failed.append(error)
        if not ended.is_set():
            os.kill(os.getpid(), by)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        code = main(arguments)
    finally:
        ended.set()
        thread.join()
    if failed:
        raise failed[0]
    return code
