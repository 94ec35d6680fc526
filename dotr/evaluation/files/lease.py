"""A lease: the right of one process to write to what is at a URL, as an object beside it.

Idea: the object names its holder, and is put where there is none. The holder puts it again, if it
is unchanged, several times within the time for which it holds. Another process replaces a lease
that it has seen unchanged for that time by its own clock, so that no two clocks are compared.
Invariant: of two processes one at most counts on its lease: the holder counts from before its last
renewal, the other from after it has seen it.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.files.private_files import ForeignFile
from dotr.evaluation.files.stores import Location

SECONDS: Final = 30.0
"""Time for which a lease holds from its last renewal on."""

_RENEWED_EVERY: Final = 8.0
_LOOKED_EVERY: Final = 1.0
_ID: Final = "lease"


class LeaseLost(DotrError):
    """Reason why a process must not write any more, phrased to follow a place. `taken`: another
    process may write."""

    def __init__(self, why: str, *, taken: bool) -> None:
        super().__init__(why)
        self.taken = taken


class LeaseHeld(DotrError):
    """Raised where another process has a lease; `holder` are the members of its object."""

    def __init__(self, holder: Mapping[str, object]) -> None:
        super().__init__("is held")
        self.holder = holder


class Lease:
    """A lease that this process has, renewed by a thread.

    Args:
        place: the object.
        holder: members that name the process, as JSON has them.
        dead: the ID of a lease whose holder is known to have ended; empty: none.
        tell: called with the members of a holder that may have ended, and the seconds to wait.

    Raises:
        LeaseHeld: another process has it.
        ForeignFile: something else has the name of the object.
        OSError: the store does not answer.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     lease = Lease(Location.of(folder) / "lease.json", {"pipeline": "fire"})
    ...     lease.confirm()
    ...     lease.release()
    ...     Lease(Location.of(folder) / "lease.json", {"pipeline": "smoke"}).release()
    """

    def __init__(
        self,
        place: Location,
        holder: Mapping[str, object],
        dead: str = "",
        tell: Callable[[Mapping[str, object], float], None] = lambda holder, seconds: None,
    ) -> None:
        self.id = secrets.token_hex(8)
        self._place, self._holder, self._number = place, holder, 0
        self._lost: LeaseLost | None = None
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._renewed = time.monotonic()
        self._tag = self._acquired(dead, tell)
        self._thread = threading.Thread(target=self._renew, name="dotr-lease", daemon=True)
        self._thread.start()

    def _text(self) -> bytes:
        # The number lets each renewal have another tag: some stores make it of the content.
        members = {**self._holder, _ID: self.id, "seconds": SECONDS, "renewal": self._number}
        return json.dumps(members).encode()

    def _acquired(self, dead: str, tell: Callable[[Mapping[str, object], float], None]) -> str:
        while True:
            self._renewed = time.monotonic()
            if (tag := self._place.put_new(self._text())) is not None:
                return tag
            if (found := self._place.look()) is None:
                continue
            holder = read_holder(self._place)
            if holder is None:
                continue
            seconds = holder.get("seconds")
            left = 0.0 if holder.get(_ID) == dead else float(seconds) if isinstance(seconds, int | float) else SECONDS
            if left:
                tell(holder, left)
            if not self._is_silent(found.tag, left):
                raise LeaseHeld(holder)
            self._renewed = time.monotonic()
            if (tag := self._place.put_unchanged(self._text(), found.tag)) is not None:
                return tag

    def _is_silent(self, tag: str, seconds: float) -> bool:
        """True where the object has no other tag within some seconds; it may be removed."""
        since = time.monotonic()
        while time.monotonic() < since + seconds:
            time.sleep(_LOOKED_EVERY)
            found = self._place.look()
            if found is None or found.tag != tag:
                return found is None
        return True

    def _renew(self) -> None:
        while not self._ended.wait(_RENEWED_EVERY):
            with suppress(LeaseLost):  # which the next confirmation tells
                self.confirm()

    def confirm(self) -> None:
        """Renew the lease now. Raises LeaseLost where this process must not write any more."""
        with self._lock:
            if self._lost is None:
                began, self._number = time.monotonic(), self._number + 1
                try:
                    tag = self._place.put_unchanged(self._text(), self._tag)
                    if tag is None:
                        self._lost = LeaseLost("was taken over by another run", taken=True)
                    else:
                        self._tag, self._renewed = tag, began
                except OSError as error:
                    if time.monotonic() >= self._renewed + SECONDS:
                        why = (error.strerror or str(error)).lower()
                        self._lost = LeaseLost(f"could not be renewed for {SECONDS:g} s: {why}", taken=False)
            if self._lost is not None:
                raise self._lost

    def release(self) -> None:
        """End the lease, so that another process has it at once."""
        self._ended.set()
        with self._lock, suppress(OSError):
            if self._lost is None and (found := self._place.look()) is not None and found.tag == self._tag:
                self._place.remove()


def read_holder(place: Location) -> Mapping[str, object] | None:
    """The members of a lease's object; None where there is none. Raises ForeignFile and OSError."""
    try:
        members = json.loads(place.read())
    except FileNotFoundError:
        return None
    except ValueError:
        members = None
    if not isinstance(members, dict) or _ID not in members:
        raise ForeignFile("is no lease of dotr")
    return members
