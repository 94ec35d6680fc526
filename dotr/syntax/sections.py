"""Base of all sections of a configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of all sections: unknown keys and wrong types are errors, values are immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def is_given(self, key: str) -> bool:
        """True if the document gives a value for a key, rather than the default."""
        return key in self.model_fields_set
