"""Command line of dotr (interface.md, Commands).

Exit codes: 0 success; 1 a run or a test failed; 2 the configuration, a rule or the usage is wrong.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from dotr import __version__
from dotr.commands.common import collect_as_usual, collect_rarely, print_json
from dotr.errors.diagnostics import DotrError, Refused
from dotr.errors.terminal import escape_controls, print_stderr
from dotr.model import keep_methods

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_COMMANDS: Final = {
    "run": "run",
    "reload": "plan.reload",
    "status": "status",
    "check": "check",
    "plan": "plan",
    "replay": "replay",
    "audit": "replay.audit",
    "test": "test",
    "why": "why.why",
    "why-not": "why.why_not",
    "facts": "why.facts",
    "report": "report",
    "explain": "explain",
    "new": "new",
    "kb": "kb",
    "bundle": "bundle",
}
"""Modules of the commands by name, in the order of the help text. Each has `add_parser` and `execute`."""


class _EscapingParser(argparse.ArgumentParser):
    """Argument parser that escapes control characters in its messages."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(escape_controls(message), file)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Parser of the command that the first argument names; of all commands if it names none."""
    parser = _EscapingParser(prog="dotr", description="Reasoning over streams of RDF.")
    parser.add_argument("--version", action="version", version=f"dotr {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in [name for name in arguments[:1] if name in _COMMANDS] or _COMMANDS:
        command = import_module(f"dotr.commands.{_COMMANDS[name]}")
        command.add_parser(commands)
        commands.choices[name].set_defaults(execute=command.execute)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    `arguments` are those of the command line, without the program's name; None takes them from
    `sys.argv`. Errors are printed on stderr; with DOTR_TRACE=1 unexpected ones are raised.
    """
    collect_rarely()
    if arguments is None:
        arguments = sys.argv[1:]
        atexit.register(keep_methods)
        atexit.register(gc.freeze)  # the interpreter, on its way out, would look for garbage among all that is loaded
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # pydantic would look for plugins in all installed packages
    try:
        options = _parser(arguments).parse_args(arguments)
    except SystemExit as done:  # usage, or --help
        collect_as_usual()
        return done.code if isinstance(done.code, int) else 2
    try:
        if os.environ.get("DOTR_CODE"):
            from dotr.evaluation.codegen import check_folder

            check_folder()
        return int(options.execute(options))
    except Refused as refused:
        if getattr(options, "progress", "") == "json":
            for diagnostic in refused.diagnostics:
                print_json(str(diagnostic), "error")
        else:
            print_stderr("\n\n".join(map(str, refused.diagnostics)))
        return 2
    except KeyboardInterrupt:
        print_stderr("Stopped.")
        return 130
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        print_stderr("dotr failed: there is not enough memory.")
        return 1
    except OSError as error:
        if os.environ.get("DOTR_TRACE"):
            raise
        print_stderr(f"dotr failed: {error.filename or 'standard output'}: {(error.strerror or str(error)).lower()}")
        return 1
    except DotrError as failure:  # of an input or an output, and of no file of the user
        print_stderr(f"dotr failed: {failure}")
        return 1
    except Exception as error:
        if os.environ.get("DOTR_TRACE"):
            raise
        print_stderr(f"dotr failed: {type(error).__name__}: {error}\nThis is a fault of dotr's own; with DOTR_TRACE=1 it shows where.")
        return 1
    finally:
        collect_as_usual()
