"""Number of buckets of a start: as many as there are cores, or as the configuration fixes.

Idea: a bucket beyond the cores costs a step at every instant, a core beyond the buckets is idle. So
the state moves where there are more cores than buckets, or at most half as many; between, a move
costs more than it saves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from dotr.model import dataclass


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of a start.

    - `number`: the number of tasks that run at a time; None: unknown before the start.
    - `place`: the master, as messages name it.
    - `is_dynamic`: executors come and go while the query runs.
    """

    number: int | None
    place: str = ""
    is_dynamic: bool = False


def buckets_at_start(buckets: int, cores: Cores, fixed: int | None) -> int:
    """The number of buckets with which a query continues from a checkpoint.

    Args:
        buckets: the number of buckets of the checkpoint.
        cores: the cores of this start.
        fixed: `spark.buckets` of the configuration.

    >>> [buckets_at_start(4, Cores(number), None) for number in (1, 2, 3, 4, 5)]
    [1, 2, 4, 4, 5]
    >>> buckets_at_start(4, Cores(8, is_dynamic=True), None), buckets_at_start(4, Cores(8), 3)
    (4, 3)
    """
    if fixed is not None:
        return fixed
    number = cores.number
    if number is None or cores.is_dynamic or buckets // 2 < number <= buckets:
        return buckets
    return number


def move_line(buckets: int, moved: int, cores: Cores, fixed: int | None) -> str:
    """The line of output for a move to another number of buckets, with the reason.

    >>> move_line(2, 4, Cores(4), None), move_line(4, 1, Cores(1, "local[1]"), None)
    ('The state moves from 2 to 4 buckets: there are 4 cores.', 'The state moves from 4 to 1 bucket: local[1] has 1 core.')
    >>> move_line(2, 3, Cores(4), 3)
    'The state moves from 2 to 3 buckets: spark.buckets is 3.'
    """
    number, core = cores.number, "core" if cores.number == 1 else "cores"
    there = f"there {'is' if number == 1 else 'are'} {number} {core}" if not cores.place else f"{cores.place} has {number} {core}"
    why = f"spark.buckets is {fixed}" if fixed is not None else there
    return f"The state moves from {buckets} to {moved} bucket{'' if moved == 1 else 's'}: {why}."


def buckets_line(buckets: int, cores: Cores, fixed: int | None) -> str:
    """The line of `dotr plan` on the number of buckets; empty where it stays and equals that of the
    cores, or is fixed.

    >>> buckets_line(2, Cores(2, "local[2]"), None)
    ''
    >>> buckets_line(4, Cores(3, "local[3]"), None)
    'The state stays in 4 buckets: local[3] has 3 cores, and it moves to more than 4 cores, or to at most 2.'
    >>> buckets_line(1, Cores(None, "spark://host:7077"), None)
    'The state stays in 1 bucket unless there are more than 1 cores at the start; then it moves to as many buckets as cores.'
    >>> buckets_line(4, Cores(None), None)
    'The state stays in 4 buckets unless there are more than 4 cores at the start, or at most 2; then it moves to as many buckets as cores.'
    >>> buckets_line(4, Cores(None, is_dynamic=True), None)
    'The state stays in 4 buckets: the cores are allocated dynamically.'
    """
    moved = buckets_at_start(buckets, cores, fixed)
    if moved != buckets:
        return move_line(buckets, moved, cores, fixed)
    if fixed is not None or cores.number == buckets:
        return ""
    stays = f"The state stays in {buckets} bucket{'' if buckets == 1 else 's'}"
    if cores.is_dynamic:
        return f"{stays}: the cores are allocated dynamically."
    if cores.number is None:
        fewer = f", or at most {buckets // 2}" if buckets > 1 else ""
        return f"{stays} unless there are more than {buckets} cores at the start{fewer}; then it moves to as many buckets as cores."
    return f"{stays}: {cores.place} has {cores.number} cores, and it moves to more than {buckets} cores, or to at most {buckets // 2}."


def is_allocated_dynamically(conf: Mapping[str, str]) -> bool:
    """True if a configuration of Spark lets executors come and go."""
    return conf.get("spark.dynamicAllocation.enabled", "false") == "true"


def cores_of_master(master: str | None, conf: Mapping[str, str]) -> Cores:
    """The cores of a master, as far as its name gives their number.

    >>> cores_of_master("local[3]", {}), cores_of_master("local", {}).number, cores_of_master("local[4,2]", {}).number
    (Cores(number=3, place='local[3]', is_dynamic=False), 1, 4)
    >>> cores_of_master("spark://host:7077", {}).number, cores_of_master(None, {}).place
    (None, '')
    """
    place, dynamic = master or "", is_allocated_dynamically(conf)
    parallelism = conf.get("spark.default.parallelism", "")
    if parallelism.isdecimal():
        return Cores(int(parallelism), place or "spark.default.parallelism", dynamic)
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", place)
    if local is None:
        return Cores(None, place, dynamic)
    number = os.cpu_count() if local[1] == "*" else int(local[1] or 1)
    return Cores(number, place, dynamic)
