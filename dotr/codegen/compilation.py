"""Compilation of generated Python: the only place of the project that executes text.

Idea: a text is compiled once, under a file name of its own (`<dotr join 17>`, numbered by kind), which `linecache` knows: a traceback
and the debugger show its lines. With the environment variable `DOTR_CODE=DIR`, each text is also a file in that folder
(`join_1f0c…a2.py`, called by a digest of the text, so that the same text has the same name in every process), and the file name of its
code is that path.
Invariant: texts hold names made by generators, numbers and `repr` of strings; terms, tables and conditions come in as parameters or names.
Nothing but the environment of the process asks for files: no configuration, rule or record can.
Cost: 50 to 500 µs a text when it is compiled; about 1 µs when it has been before.
"""

from __future__ import annotations

import linecache
import os
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import Any, Final

from dotr.errors.diagnostics import Diagnostic, Refused

FOLDER: Final = "DOTR_CODE"
"""The environment variable that names the folder of generated code."""

_CACHED_TEXTS: Final = 4096
"""How many texts stay compiled, and how many stay known to `linecache`."""

_numbers: Counter[str] = Counter()
_registered: deque[str] = deque()


def define(text: str, kind: str, name: str, names: Mapping[str, object]) -> Callable[..., Any]:
    """The function `name` that a text defines, over these global names.

    >>> define("def twice(x):\\n    return times * x\\n", "example", "twice", {"times": 2})(21)
    42
    """
    space = dict(names)
    exec(compiled(text, kind), space)
    function: Callable[..., Any] = space[name]  # type: ignore[assignment]
    return function


@lru_cache(_CACHED_TEXTS)
def compiled(text: str, kind: str) -> CodeType:
    """A text as code; `kind` says what sort of function it is, in lower-case words.

    >>> compiled("def f():\\n    return 1 / 0\\n", "kind of example").co_filename.rstrip("0123456789>")
    '<dotr kind of example '
    """
    _numbers[kind] += 1
    return compile(text, _write_file(text, kind) or _register_source(text, kind), "exec")


def check_folder() -> None:
    """Raises `Refused` where `DOTR_CODE` names what is no folder that can be written. Compilation itself goes on without the file: a run
    neither stops for it nor takes it for a fault of its input."""
    folder = os.environ.get(FOLDER)
    if folder:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            reason = "" if os.access(folder, os.W_OK | os.X_OK) else "permission denied"
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
        if reason:
            hint = "Name a folder that can be written, or unset the variable."
            raise Refused([Diagnostic("C106", f"{FOLDER}={folder} is no folder for generated code: {reason}", None, hint)])


def _register_source(text: str, kind: str) -> str:
    """A file name under which `linecache` has the text; of the texts that it has had longest, some are given up."""
    name = f"<dotr {kind} {_numbers[kind]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    _registered.append(name)
    if len(_registered) > _CACHED_TEXTS:
        linecache.cache.pop(_registered.popleft(), None)
    return name


def _write_file(text: str, kind: str) -> str | None:
    """The path of the file that the text is written to; None where nobody asked for it, or the folder cannot be written."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    path = Path(folder).absolute() / f"{kind.replace(' ', '_')}_{blake2b(text.encode(), digest_size=8).hexdigest()}.py"
    with suppress(OSError):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}.part")
            with part.open("x", encoding="utf-8") as file:  # never through a link that somebody else has put there
                file.write(text)
            part.replace(path)
        return str(path)
    return None
