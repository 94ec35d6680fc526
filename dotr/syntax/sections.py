"""Base of all sections of a configuration, and their places in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from dotr.model.places import Span
from dotr.syntax.yaml import Location, Tree


class Section(BaseModel):
    """Base of all sections: unknown keys and wrong types are errors, values are immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def is_given(self, key: str) -> bool:
        """True if the document gives a value for a key, rather than the default."""
        return key in self.model_fields_set


@dataclass(frozen=True, slots=True)
class SectionPlace:
    """Place of a section in its document: where the problems of its keys are shown, and what its
    paths are relative to.

    - `tree`: the document.
    - `location`: the keys that lead to the section.
    - `resolved`: a function from a path in the document, and its location, to the path relative to
      the working directory.

    >>> from dotr.model.places import Document
    >>> from dotr.syntax.yaml import read_tree
    >>> tree = read_tree(Document("a.yaml", "http: { url: https://h, tls: { ca: ca.pem } }"))
    >>> place = SectionPlace(tree, ("http",), lambda text, location: f"folder/{text}")
    >>> place.key_span("url").text, place.span("url").text, place.path("ca.pem", "tls", "ca")
    ('url', 'https://h', 'folder/ca.pem')
    """

    tree: Tree
    location: Location
    resolved: Callable[[str, Location], str]

    def span(self, *keys: str | int) -> Span:
        """The span of the value of a key, or of the innermost value around a missing one; of the
        section without keys."""
        return self.tree.span((*self.location, *keys))

    def key_span(self, *keys: str | int) -> Span:
        """The span of a key; of the section's own without keys."""
        return self.tree.key_span((*self.location, *keys))

    def path(self, text: str, *keys: str | int) -> str:
        """The path that a key gives as `text`, relative to the working directory."""
        return self.resolved(text, (*self.location, *keys))
