"""JSON Schema of a configuration, from its sections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from dotr.config.sections import Settings
from dotr.config.validation import FieldRule, Section, fields_of, types_of

_Json: TypeAlias = dict[str, Any]

_NAMES: Final[Mapping[object, str]] = {str: "string", int: "integer", bool: "boolean", NoneType: "null"}


def schema() -> str:
    """The JSON Schema of a configuration, as `config.schema.json` holds it."""
    sections: dict[str, _Json] = {}
    root = _object(Settings, sections)
    return json.dumps({"$defs": dict(sorted(sections.items())), **root}, indent=2) + "\n"


def _object(model: type[Section], sections: dict[str, _Json]) -> _Json:
    """The schema of a section; those of the sections inside are added to `sections`."""
    properties = {field.key or name: _key(name, types_of(model)[name], field, sections) for name, field in fields_of(model).items()}
    required = [field.key or name for name, field in fields_of(model).items() if field.is_required]
    return _sorted(
        {
            "additionalProperties": False,
            "description": " ".join((model.__doc__ or "").split()),
            "properties": properties,
            "title": model.__name__,
            "type": "object",
            **({"required": required} if required else {}),
        }
    )


def _key(name: str, expected: Any, field: FieldRule, sections: dict[str, _Json]) -> _Json:
    """The schema of a key's value."""
    described: _Json = {"description": field.description} if field.description else {}
    if not field.is_required:
        described["default"] = _plain(field.default)
    reference = _type(expected, field, sections)
    title = {} if "$ref" in reference else {"title": name.replace("_", " ").title()}
    return _sorted({**reference, **described, **title})


def _type(expected: Any, field: FieldRule, sections: dict[str, _Json]) -> _Json:
    """The schema of a type, with the requirements of the key that has it."""
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in (Union, UnionType):
        return {"anyOf": [_type(member, field, sections) for member in arguments]}
    if origin is Literal:
        return {"enum": list(arguments), "type": "string"}
    if origin is list:
        items = _type(arguments[0], FieldRule(), sections)
        return _sorted({"items": items, "type": "array", **_bound("minItems", field.min_length or None)})
    if origin is dict:
        return {"additionalProperties": _type(arguments[1], FieldRule(), sections), "type": "object"}
    if isinstance(expected, type) and issubclass(expected, Section):
        if expected.__name__ not in sections:
            sections[expected.__name__] = {}
            sections[expected.__name__] = _object(expected, sections)
        return {"$ref": f"#/$defs/{expected.__name__}"}
    bounds: _Json = {}
    if expected is str:
        bounds = _bound("minLength", field.min_length or None) | _bound("maxLength", field.max_length)
    elif expected is int:
        bounds = _bound("exclusiveMinimum", field.gt) | _bound("minimum", field.ge) | _bound("maximum", field.le)
    return _sorted({"type": _NAMES[expected], **bounds})


def _bound(keyword: str, value: int | None) -> _Json:
    return {} if value is None else {keyword: value}


def _plain(value: object) -> object:
    """A default as JSON."""
    return {name: _plain(getattr(value, name)) for name in fields_of(type(value))} if isinstance(value, Section) else value


def _sorted(schema: _Json) -> _Json:
    return dict(sorted(schema.items()))
