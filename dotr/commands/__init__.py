"""Command line of dotr (interface.md, Commands).

Exit codes: 0 success; 1 a run or a test failed; 2 the configuration, a rule or the usage is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dotr import __version__
from dotr.commands import bundle, check, explain, kb, new, plan, replay, report, run, status, test
from dotr.commands.common import print_json
from dotr.commands.plan import reload
from dotr.commands.replay import audit
from dotr.commands.why import facts, why, why_not
from dotr.errors.diagnostics import Refused
from dotr.errors.terminal import escape_controls, print_stderr

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_COMMANDS: Final = (run, reload, status, check, plan, replay, audit, test, why, why_not, facts, report, explain, new, kb, bundle)
"""Modules of the commands, in the order of the help text. Each has `add_parser` and `execute`."""


class _EscapingParser(argparse.ArgumentParser):
    """Argument parser that escapes control characters in its messages."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(escape_controls(message), file)


def _parser() -> argparse.ArgumentParser:
    parser = _EscapingParser(prog="dotr", description="Reasoning over streams of RDF.")
    parser.add_argument("--version", action="version", version=f"dotr {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
        commands.choices[command.__name__.rpartition(".")[2].replace("_", "-")].set_defaults(execute=command.execute)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    `arguments` are those of the command line, without the program's name; None takes them from
    `sys.argv`. Errors are printed on stderr; with DOTR_TRACE=1 unexpected ones are raised.
    """
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as done:  # usage, or --help
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
    except Exception as error:
        if os.environ.get("DOTR_TRACE"):
            raise
        print_stderr(f"dotr failed: {type(error).__name__}: {error}\nThis is a fault of dotr's own; with DOTR_TRACE=1 it shows where.")
        return 1
