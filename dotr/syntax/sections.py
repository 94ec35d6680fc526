"""Base of all sections of a configuration, and their places in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from dotr.model import dataclass
from dotr.model.places import Span
from dotr.syntax.yaml import KeyPath, Tree

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue


class Section(BaseModel):
    """Base of all sections: unknown keys and wrong types are errors, values are immutable.

    A section is compiled with the one that holds it (`defer_build`): by itself it would be, too, in
    9 of the 190 ms that a configuration takes.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    def is_given(self, key: str) -> bool:
        """True if the document gives a value for a key, rather than the default."""
        return key in self.model_fields_set


class LaterSection:
    """Section that is imported where a document has it: metadata of the annotation of a key.

    >>> LaterSection("dotr.streams.storage", "S3Section").section.__name__
    'S3Section'
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    @cached_property
    def section(self) -> type[Section]:
        """The class of the section."""
        found: type[Section] = getattr(import_module(self._module), self._name)
        return found

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        self.section.model_rebuild()
        found: Any = self.section.__pydantic_core_schema__
        inner, definitions = (found["schema"], found["definitions"]) if found["type"] == "definitions" else (found, [])
        ref = f"{self._module}.{self._name}:{id(self.section)}"  # all uses of a reference are one definition
        return handler(core_schema.definitions_schema({**inner, "ref": ref}, definitions))

    def _validated(self, value: Any) -> Section:
        return self.section.model_validate(value)


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
    location: KeyPath
    resolved: Callable[[str, KeyPath], str]

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
