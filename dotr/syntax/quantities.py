"""Durations as text: one parser for all languages, configurations and tests.

Forms: `0`; numbers with units (`1 h 30 min`, `250ms`); the lexical form of an xsd:duration (`PT5M`,
`P1DT12H`) without years and months. Sums are exact.
Source: language.md (DURATION).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from dotr.errors.diagnostics import DotrError, did_you_mean
from dotr.model.time import LAST_MICRO, Micros, Unit

UNITS: Final[Mapping[str, Unit]] = {
    **dict.fromkeys(("us",), Unit.MICROSECOND),
    **dict.fromkeys(("ms",), Unit.MILLISECOND),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Unit.SECOND),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), Unit.MINUTE),
    **dict.fromkeys(("h", "hour", "hours"), Unit.HOUR),
    **dict.fromkeys(("d", "day", "days"), Unit.DAY),
}
MINUTES_AS_M: Final[Mapping[str, Unit]] = {**UNITS, "m": Unit.MINUTE}
"""Units of `.rspql`, in which `10m` are minutes."""

_LEXICAL: Final = re.compile(
    r"(?P<sign>-)?P(?:(?P<Y>\d+)Y)?(?:(?P<Mo>\d+)M)?(?:(?P<D>\d+)D)?(?:T(?=\d)(?:(?P<H>\d+)H)?(?:(?P<M>\d+)M)?(?:(?P<S>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([^\W\d_]+\.?)\s*")
_MAX_CHARACTERS: Final = 100


class InvalidDuration(DotrError, ValueError):
    """Raised for a text that is no duration; its string is the reason.

    - `hint`: a correction; may be empty.
    - `unit`: the unknown unit, as written; empty for other mistakes.
    - `is_general`: the mistake concerns the whole duration, with its datatype if it has one.
    """

    def __init__(self, message: str, hint: str = "", unit: str = "", *, is_general: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.unit = unit
        self.is_general = is_general


def parse_duration(text: str, units: Mapping[str, Unit] = UNITS, bare: Unit | None = None) -> Micros:
    """The length in µs of a duration's text.

    Args:
        text: the whole text of the duration; blanks around it are skipped.
        units: the words for units, in small letters.
        bare: the unit of a number without one; None: only 0 needs no unit.

    Raises:
        InvalidDuration: with the reason.

    >>> parse_duration("1 h 30 min") == parse_duration("PT1H30M") == 5_400_000_000
    True
    >>> parse_duration("10m", MINUTES_AS_M), parse_duration("10", bare=Unit.MILLISECOND), parse_duration("0")
    (600000000, 10000, 0)
    >>> parse_duration("P1M")
    Traceback (most recent call last):
    dotr.syntax.quantities.InvalidDuration: years and months have no fixed length
    """
    if len(text) > 2 * _MAX_CHARACTERS:
        raise InvalidDuration(f"{text[:40]!r}… is no length of time: it has {len(text):,} characters", "Write fewer digits.")
    text = text.strip()
    if text[:1] in ("P", "-") and text[:2] != "-0":
        return lexical_duration(text)
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text) and (bare is not None or not Fraction(text)):
        return duration_of([(text, None)], bare=bare)
    parts: list[tuple[str, str | None]] = []
    at = 0
    while at < len(text) or not text:
        quantity = _QUANTITY.match(text, at)
        if quantity is None:
            raise InvalidDuration(f"{text!r} is no length of time: write 0 s, 30 s or 5 min", "Write it like 30 s, 5 min or PT5M.")
        parts.append((quantity[1], quantity[2]))
        at = quantity.end()
    return duration_of(parts, units)


def duration_of(parts: Sequence[tuple[str, str | None]], units: Mapping[str, Unit] = UNITS, bare: Unit | None = None) -> Micros:
    """The sum in µs of numbers with their units. Raises `InvalidDuration`.

    A number with the unit None has the unit `bare`; where that is None too, it must be 0.

    >>> duration_of([("1", "h"), ("30", "Min.")])
    5400000000
    """
    if any(len(amount) > _MAX_CHARACTERS for amount, _ in parts):
        raise InvalidDuration(f"a duration of more than {_MAX_CHARACTERS} characters", "Write fewer digits.", is_general=True)
    exact = Fraction(0)
    for amount, word in parts:
        unit = bare if word is None else _unit(word, units)
        exact += Fraction(amount) * (unit.value if unit is not None else 0)
    return _whole(exact)


def lexical_duration(text: str) -> Micros:
    """The µs of an xsd:duration's lexical form (XSD 1.1 part 2, 3.3.6), without years and months.

    Raises `InvalidDuration`.

    >>> lexical_duration("PT1M0.5S")
    60500000
    """
    if len(text) > _MAX_CHARACTERS:
        raise InvalidDuration(f"a duration of more than {_MAX_CHARACTERS} characters", "Write fewer digits.", is_general=True)
    fields = _LEXICAL.fullmatch(text)
    if fields is None or not any(fields[part] for part in ("Y", "Mo", "D", "H", "M", "S")):
        raise InvalidDuration(f'"{text}" is no duration', 'A duration is written like "P1DT12H", "PT5M" or "PT0.25S".')
    if fields["Y"] or fields["Mo"]:
        raise InvalidDuration("years and months have no fixed length", "Write days.")
    if fields["sign"]:
        raise InvalidDuration("a length of time is not negative", "Leave out the minus.")
    lengths = {"D": Unit.DAY, "H": Unit.HOUR, "M": Unit.MINUTE, "S": Unit.SECOND}
    return _whole(sum((Fraction(fields[part]) * unit.value for part, unit in lengths.items() if fields[part]), Fraction(0)))


def _unit(word: str, units: Mapping[str, Unit]) -> Unit:
    name = word.rstrip(".").lower()
    if name in units:
        return units[name]
    hint = "Write min for minutes; months have no fixed length." if name == "m" else did_you_mean(name, list(units))
    raise InvalidDuration(f"unknown unit {word}", f"Units are us, ms, s, min, h and d. {hint}".rstrip(), word)


def _whole(exact: Fraction) -> Micros:
    if exact.denominator != 1:
        raise InvalidDuration("finer than a microsecond", "Time is counted in whole microseconds.", is_general=True)
    if exact > LAST_MICRO:
        raise InvalidDuration("longer than time", f"The longest is {LAST_MICRO // Unit.DAY.value} days.", is_general=True)
    return int(exact)


# Sizes in bytes, as they are written in a configuration.

_UNITS: Final = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([A-Za-z]*)")


def parse_size(value: str | int) -> int:
    """A size in bytes, above 0. Raises ValueError for any other text.

    >>> parse_size("10 GiB"), parse_size("64kB"), parse_size(8)
    (10737418240, 64000, 8)
    """
    found = _SIZE.fullmatch(str(value).strip())
    if found is None or found[2] not in _UNITS or not int(found[1]):
        raise ValueError(f"{value} is no size: write it like 10 GiB or 64 MiB")
    return int(found[1]) * _UNITS[found[2]]
