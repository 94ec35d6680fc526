"""Compilation of generated Python: the only place of the project that executes text.

Idea: a text is compiled once, under a file name of its own (`<dotr join 17>`, numbered by kind)
that is registered with `linecache`: tracebacks and the debugger show its lines. With the
environment variable `DOTR_CODE=DIR`, each text is also a file in that folder (`join_1f0c…a2.py`,
named by a digest of the text, so that one text has one name in every process), and the file name of
its code is that path.
Invariant: texts hold generated names, numbers and `repr` of strings; terms, tables and conditions
are parameters or globals. Only the environment of the process requests files: no configuration,
rule or record can.
Cost: 50 to 500 µs for a new text; about 1 µs for a cached one.
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
from dotr.evaluation.files.private_files import replace_file

FOLDER: Final = "DOTR_CODE"
"""The environment variable that names the folder of generated code."""

_CACHED_TEXTS: Final = 4096
"""The number of texts that stay compiled, and of those registered with `linecache`."""

_numbers: Counter[str] = Counter()
_registered: deque[str] = deque()


def define(text: str, kind: str, name: str, names: Mapping[str, object]) -> Callable[..., Any]:
    """The function `name` defined by a text, with the globals `names`.

    >>> define("def twice(x):\\n    return times * x\\n", "example", "twice", {"times": 2})(21)
    42
    """
    space = dict(names)
    exec(compiled(text, kind), space)
    function: Callable[..., Any] = space[name]  # type: ignore[assignment]
    return function


@lru_cache(_CACHED_TEXTS)
def compiled(text: str, kind: str) -> CodeType:
    """A text as code; `kind` describes the function in lower-case words.

    >>> compiled("def f():\\n    return 1 / 0\\n", "kind of example").co_filename.rstrip("0123456789>")
    '<dotr kind of example '
    """
    _numbers[kind] += 1
    return compile(text, _write_file(text, kind) or _register_source(text, kind), "exec")


def check_folder() -> None:
    """Raises `Refused` if `DOTR_CODE` names a folder that cannot be written.

    Compilation itself continues without the file, so that a running program neither stops nor
    blames its input.
    """
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
    """Registers a text with `linecache` under a new file name; the oldest registered text is
    removed beyond the limit."""
    name = f"<dotr {kind} {_numbers[kind]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    _registered.append(name)
    if len(_registered) > _CACHED_TEXTS:
        linecache.cache.pop(_registered.popleft(), None)
    return name


def _write_file(text: str, kind: str) -> str | None:
    """The path of the file that holds the text; None if no folder is requested or writable."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    path = Path(folder).absolute() / f"{kind.replace(' ', '_')}_{blake2b(text.encode(), digest_size=8).hexdigest()}.py"
    with suppress(OSError):
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, [text.encode()])
        return str(path)
    return None
