"""Environment of a process: values of secrets, which are written `${NAME}`; settings of Hadoop."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Final

from dotr.errors.diagnostics import refuse

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable, without a default, as secrets are written."""


def value_of(variable: str) -> str:
    """The value of an environment variable; raises `Refused` (S124) where it is not set."""
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
    """The value of a reference `${NAME}`; any other text unchanged.

    Raises `Refused` (S124) where the variable is not set.


    >>> os.environ["KAFKA_PASSWORD"] = "x7"
    >>> revealed("${KAFKA_PASSWORD}"), revealed("PLAIN")
    ('x7', 'PLAIN')
    """
    found = VARIABLE.fullmatch(text)
    return text if found is None else value_of(found[1])


@cache
def hadoop_settings() -> Mapping[str, str]:
    """The settings in core-site.xml and hdfs-site.xml of HADOOP_CONF_DIR (or HADOOP_HOME/etc/hadoop);
    none where there are no such files."""
    home = os.environ.get("HADOOP_HOME")
    folder = os.environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else "")
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml") if folder else ():
        from xml.etree import ElementTree

        with suppress(OSError, ElementTree.ParseError):
            for each in ElementTree.parse(os.path.join(folder, name)).iter("property"):
                found[(each.findtext("name") or "").strip()] = (each.findtext("value") or "").strip()
    return found
