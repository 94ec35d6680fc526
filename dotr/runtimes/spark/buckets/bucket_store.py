"""The stored state of one bucket, as the operator hands it to the engine's code."""

from __future__ import annotations

from typing import Protocol

from dotr.engine.state.segments import SegmentMap


class BucketStore(SegmentMap, Protocol):
    """The stored state of one bucket: a value beside the segments."""

    def value(self) -> tuple[bytes, bytes] | None:
        """The digest and the text or manifest; None where there is no state yet."""

    def set_value(self, digest: bytes, written: bytes) -> None:
        """Replace the digest and the text or manifest."""
