"""A session between two instants as bytes, and its continuation by a program whose rules may have
changed.

Idea: the state of each layer is written as on Spark, beside the schema of the state
(`dotr.engine.state.schema`), and `dotr.engine.state.migration` moves it where rules have changed.
The bytes are a line of text, `dotr session VERSION DIGEST`, and compressed JSON: no code, and
nothing that executes. Invariant: bytes that are not as `encode` made them are refused; two equal
sessions have equal bytes.
Cost: proportional to the state.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.engine.state.migration import StateChange, StateFate, StateMigrator, merge_parts, state_change
from dotr.engine.state.schema import KnowledgeDigests, StateSchema, knowledge_digests, state_schema
from dotr.errors.diagnostics import ArgumentRefused, Diagnostic
from dotr.model import dataclass
from dotr.model.time import UNITS, Clock, Micros, Unit
from dotr.temporal.matching.state import StateError, StateSnapshot

if TYPE_CHECKING:  # loaded where a program has a query
    from dotr.engine.unit_layer import WrittenUnit

VERSION: Final = 1
"""The version of the bytes; that of the states in them is `STATE_VERSION`."""

_HEAD: Final = re.compile(rb"dotr session ([0-9]{1,9}) ([0-9a-f]{32})\n")
_ANEW: Final = "begin anew with program.session()."
_LEVEL: Final = 1
"""The compression level: a quarter of the time of zlib's default, for a tenth more bytes."""


_UNKNOWN: Final = "unknown"
"""The digest of a background whose files cannot be read any more."""


class Continuation(NamedTuple):
    """A program that continues a saved session.

    - `program`: the program, with the starts of its rules (`ProgramSpec.since`).
    - `states`: the encoded state of each of its layers.
    - `change`: the change from the program that saved the session.
    """

    program: CompiledProgram
    states: Sequence[bytes]
    change: StateChange

    @property
    def knowledge_warning(self) -> str | None:
        """The warning that the background has changed; None where it has not, or its files could
        not be read."""
        known = _UNKNOWN not in (self.change.before.knowledge, self.change.after.knowledge)
        return self.change.knowledge_warning if known else None


@dataclass(frozen=True, slots=True)
class SavedSession:
    """The state of a session that has been advanced to a time.

    `unit` is the unit of its integer times, `dated` is true where its times are date-times, `last`
    is the last time advanced to (µs since 1970), `schema` the schema of the states, and `states`
    the encoded state of each layer.
    """

    unit: Unit
    dated: bool
    last: Micros
    schema: StateSchema
    states: tuple[bytes, ...]

    def encode(self) -> bytes:
        """The session as versioned bytes."""
        head = {"unit": self.unit.written, "dated": self.dated, "last": self.last, "holdings": self.schema.to_json()}
        return _signed(b"\n".join([json.dumps(head, separators=(",", ":")).encode(), *self.states]))

    @staticmethod
    def decode(saved: bytes) -> SavedSession | None:
        """The inverse of `encode`; None for the bytes of `NEVER_ADVANCED`. Raises `ArgumentRefused`
        (C501) for bytes that are damaged, of another version, or no saved session.
        """
        text = _verified(saved)
        if not text:
            return None
        try:
            first, *states = text.split(b"\n")
            head = json.loads(first)
            unit, dated, last = Unit.from_written(head["unit"]), head["dated"], head["last"]
            schema = StateSchema.of_json(head["holdings"])
            if type(dated) is not bool or type(last) is not int:
                raise TypeError
            of_units = {unit.layer for unit in schema.units}
            if len(states) != len(schema.keys):
                raise ValueError
            for number, (state, keys) in enumerate(zip(states, schema.keys, strict=True)):
                if number in of_units:
                    _units_of(state)
                elif len(StateSnapshot.decode(state).events) != len(keys):
                    raise ValueError
        except StateError as error:
            raise _refused(str(error), f"Restore it with the release of dotr that saved it, or {_ANEW}") from None
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            raise _damaged() from None
        return SavedSession(unit, dated, last, schema, tuple(states))

    @property
    def clock(self) -> Clock:
        """The form of its times."""
        return Clock(self.unit, self.dated)

    def continued_by(self, program: CompiledProgram, knowledge: KnowledgeDigests | None = None) -> Continuation:
        """The states in the layout of a program: a clause that has not changed keeps its events,
        any other starts empty after the last time. `knowledge` has the digests of the program's
        background (None: they are computed). Raises `ArgumentRefused` (C501) where the program
        counts times in another time unit.
        """
        if not self.dated and self.unit is not program.spec.unit:
            here, there = _word(program.spec.unit), _word(self.unit)
            raise _refused(f"its times count {there}, those of this program {here}", f'Load the program with unit="{there}", or {_ANEW}')
        change = state_change(self.schema, program, self.last, knowledge or _knowledge_of(program))
        program = program.with_since(change.since)
        if not change.moves:
            return Continuation(program, self.states, change)
        migrator = StateMigrator(change.before, change.after, program, self.clock, buckets=1)
        parts: dict[int, list[StateSnapshot]] = defaultdict(list)
        of_units = {unit.layer for unit in self.schema.units}
        units = {name: state for number in sorted(of_units) for name, state in _units_of(self.states[number]).items()}
        kept = {each.rule for each in change.verdicts if each.fate is StateFate.KEPT}
        for number, state in enumerate(self.states):
            if number in of_units:
                continue
            for (layer, _), part in migrator.redistribute(number, 0, StateSnapshot.decode(state)).items():
                parts[layer].append(part)
        moved = [
            _written_units({each.unit.name: units[each.unit.name] for each in layer.units if each.unit.name in kept & units.keys()})
            if layer.units
            else merge_parts(layer, parts[layer.number], None).encode()
            for layer in program.layout.layers
        ]
        return Continuation(program, moved, change)


def _units_of(state: bytes) -> Mapping[str, WrittenUnit]:
    """The states of the units of a layer by name; raises ValueError or TypeError."""
    from dotr.engine.unit_layer import decode_units

    return decode_units(state)


def _written_units(states: Mapping[str, WrittenUnit]) -> bytes:
    from dotr.engine.unit_layer import encode_units

    return encode_units(states)


def session_schema(program: CompiledProgram) -> StateSchema:
    """The schema of the states of a program. Reads the files of its background for their digest,
    which is unknown where one is missing.
    """
    return state_schema(program, knowledge=_knowledge_of(program).meaning)


def _knowledge_of(program: CompiledProgram) -> KnowledgeDigests:
    try:
        return knowledge_digests(program)
    except OSError:
        return KnowledgeDigests(_UNKNOWN, _UNKNOWN)


def _signed(text: bytes) -> bytes:
    body = zlib.compress(text, _LEVEL)
    return f"dotr session {VERSION} {blake2b(body, digest_size=16).hexdigest()}\n".encode() + body


def _verified(saved: bytes) -> bytes:
    """The text of saved bytes, if version and digest are right."""
    if not isinstance(saved, bytes | bytearray | memoryview):
        raise _refused(f"it is {type(saved).__name__}, not bytes", f"Give what session.save() returned, or {_ANEW}")
    saved = bytes(saved)
    head = _HEAD.match(saved)
    if head is None:
        raise _damaged() if saved.startswith(b"dotr session ") else _refused("it is none", _INTACT)
    if int(head[1]) != VERSION:
        raise _refused(
            f"it is of version {int(head[1])}, this release reads {VERSION}",
            f"Restore it with the release of dotr that saved it, or {_ANEW}",
        )
    body = saved[head.end() :]
    if blake2b(body, digest_size=16).hexdigest().encode() != head[2]:
        raise _damaged()
    try:
        return zlib.decompress(body)
    except zlib.error:
        raise _damaged() from None


_INTACT: Final = f"Restore an intact copy, or {_ANEW}"

NEVER_ADVANCED: Final = _signed(b"")
"""The bytes of a session that was never advanced: it has neither state nor a form of times."""


def _damaged() -> ArgumentRefused:
    return _refused("it is damaged", _INTACT)


def _refused(why: str, hint: str) -> ArgumentRefused:
    return ArgumentRefused([Diagnostic("C501", f"the saved session cannot be restored: {why}", None, hint)])


def _word(unit: Unit) -> str:
    """The unit as an argument of `Program.load`."""
    return next(word for word, each in UNITS.items() if each is unit)
