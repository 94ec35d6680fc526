"""Values of secrets: `${NAME}` is what travels, and the process that needs a value reads its own
environment."""

from __future__ import annotations

import os
import re
from typing import Final

from dotr.errors.diagnostics import refuse

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""An environment variable without a default, as it is written for a secret."""


def value_of(variable: str) -> str:
    """The value of an environment variable of this process; raises `Refused` (S124) without one."""
    value = os.environ.get(variable)
    if value is None:
        raise refuse(
            "S124",
            f"the environment of this process has no variable {variable}",
            None,
            f"Set {variable} where dotr runs, and for the workers of Spark.",
        )
    return value


def revealed(text: str) -> str:
    """The value of a text that is a secret, `${NAME}`; any other text is itself.

    >>> os.environ["KAFKA_PASSWORD"] = "x7"
    >>> revealed("${KAFKA_PASSWORD}"), revealed("PLAIN")
    ('x7', 'PLAIN')
    """
    found = VARIABLE.fullmatch(text)
    return text if found is None else value_of(found[1])
