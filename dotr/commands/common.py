"""Types and small functions that commands share."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from dotr.errors.diagnostics import Diagnostic
from dotr.errors.terminal import print_stderr

PrintMessage: TypeAlias = Callable[[str], None]

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The parsers of the commands, by name."""

_USUAL: Final = gc.get_threshold()
_OBJECTS: Final = 50_000
"""New objects between two garbage collections while a command starts."""


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the arguments CONFIG and --set."""
    parser.add_argument("config", metavar="CONFIG", help="the pipeline's configuration (YAML)")
    add_set(parser)


def add_set(parser: argparse.ArgumentParser, told: str = "change a value of the configuration") -> None:
    """Add the argument --set, with a help text."""
    parser.add_argument("--set", action="append", default=[], dest="options", metavar="KEY.PATH=VALUE", help=told)


def add_recording(parser: argparse.ArgumentParser) -> None:
    """Add the arguments --recording and --start: options of `read_config`, as those of --set are."""
    told = "read a recording (key record) in place of all inputs"
    parser.add_argument("--recording", type="--recording={}".format, action="append", default=[], dest="options", metavar="FILE", help=told)
    told = "the start of inputs with `replay`, as the run printed it"
    parser.add_argument("--start", type="--start={}".format, action="append", default=[], dest="options", metavar="TIME", help=told)


def positive(text: str) -> int:
    """Whole number of at least 1 from an argument; raises `argparse.ArgumentTypeError`.

    >>> positive("3")
    3
    """
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number of at least 1")
    return int(text)


def not_negative(text: str) -> int:
    """Whole number of at least 0 from an argument; raises `argparse.ArgumentTypeError`.

    >>> not_negative("0")
    0
    """
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no whole number of at least 0")
    return int(text)


def collect_rarely() -> None:
    """Let garbage collections be rare while a command starts: there is hardly garbage then, and 200
    collections took a tenth of a short command's time."""
    gc.set_threshold(_OBJECTS, *_USUAL[1:])


def collect_as_usual() -> None:
    """Let garbage collections be as frequent as before `collect_rarely`."""
    gc.set_threshold(*_USUAL)


def count_noun(number: int, noun: str) -> str:
    """Number with its noun.

    >>> count_noun(0, "error"), count_noun(1, "error"), count_noun(2, "error")
    ('no errors', '1 error', '2 errors')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else f"no {noun}s"


def print_json(text: str, level: str = "info") -> None:
    """Print a message as a JSON object on stderr."""
    from dotr.runtimes.monitoring.display import json_message

    print_stderr(json_message(level, text))


def print_notices(notices: Sequence[Diagnostic], print_message: PrintMessage | None = None) -> None:
    """Print diagnostics on stderr, with an empty line after each where they are text."""
    for notice in notices:
        (print_message or print_stderr)(f"{notice}\n" if print_message is None or print_message is print_stderr else str(notice))
