"""Page of all keys of a configuration:
`python -m tools.configuration_page > docs/configuration.md`, run in the repository.

It is made from the JSON Schema that is shipped with the package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dotr.runtimes.pipeline.sections import schema

_HEAD: Final = """\
# Configuration

Made by `python -m tools.configuration_page > docs/configuration.md`; do not edit it by hand.

A configuration is a YAML file. The keys below are all that there are; an unknown one is an error (C201). `dotr new DIR` writes a small
configuration whose first line names the JSON Schema, so an editor completes keys and shows these texts.

```yaml
name: fire
prefixes: { "": "http://example.org/building#" }
rules: [rules/fire.dotr]
input:
  - { name: sensors, format: ndjson, path: data/*.ndjson, lateness: 5 s }
  - name: readings
    format: csv
    path: export.csv
    time: Zeit
    time_zone: Europe/Berlin
    map: "[] :of :{Sensor} ; :celsius {Wert} ."
output:
  - { format: ndjson, path: out/fire.ndjson }
dead_letter: out/rejected.ndjson
engine: local
```

- **Paths** are relative to the configuration file; those of `--set` to the working directory. `~` is the home folder. A glob
  (`data/*.ndjson`, `**` for any folders) stands for its files, sorted by name. `${NAME}` is the value of an environment variable.
- **Values on the command line**: `dotr run CONFIG --set input.0.path=other.csv`; items of lists are counted from 0.
- **Times of elements** are integers of `time.unit` since 1970, or ISO 8601 date-times (`2024-03-01T08:00:00+01:00`, a blank for the T
  too). A time without a zone is UTC, whatever the zone of the machine, unless `time_zone` names another (CSV and JSON).
- **Times of events** in outputs, and of `time(L)`, have the form of the input's times. Where these are integers, an event at a time that is
  no whole number of `time.unit` (12.5 s, after a delay of 500 ms) has an ISO 8601 date-time, `1970-01-01T00:00:12.5Z`: that event alone.
- **Lengths of time** are quantities with units, `30 s`, `5 min`, `1 h 30 min`; the units are `us`, `ms`, `s`, `min`, `h` and `d`.
- **CSV cells** in a `map`: `{column}` by itself is a number where the cell is a JSON number (`20.5`, not `007`; `20,5` where `decimal` is a
  comma), else a string; `'{column}'` is text, and `'{column}'^^xsd:date` has its type; in `:room{column}` or `<http://example.org/{column}>`
  the cell is percent-encoded; `<{column}>` is an IRI as it is. An empty cell leaves out the triples that need it. More, and paths in JSON,
  in [inputs.md](inputs.md).
- **Default** `–`: the key has none; the text says what then holds.
"""


@dataclass(frozen=True, slots=True)
class DescribedKey:
    """A key with its values, its default and its description, as Markdown."""

    name: str
    values: str
    default: str
    description: str


def page() -> str:
    """Text of the page."""
    whole = json.loads(schema())
    sections: Mapping[str, Any] = whole["$defs"]
    parts = [_HEAD, "## The whole file\n", *_table(_keys(whole, ""))]
    for name, described in whole["properties"].items():
        parts += _section_parts(name, described, sections)
    return "\n".join(parts) + "\n"


def _section_parts(name: str, described: Mapping[str, Any], sections: Mapping[str, Any]) -> Iterator[str]:
    """The heading, text and table of a key's section, if it has one, then those of its own keys."""
    section = _section_of(described)
    if not section:
        return
    listed = " A list of these." if described.get("type") == "array" else ""
    yield f"\n## {name}\n"
    yield f"{sections[section]['description']}{listed}\n".replace("\n\n", "\n").replace("\n", " ").rstrip() + "\n"
    yield from _table(_keys(sections[section], name))
    for key, inner in sections[section]["properties"].items():
        yield from _section_parts(f"{name}.{key}", inner, sections)


def _table(keys: Iterator[DescribedKey]) -> Iterator[str]:
    yield "| key | values | default | |"
    yield "| --- | --- | --- | --- |"
    for key in keys:
        yield f"| `{key.name}` | {key.values} | {key.default} | {key.description.replace('|', chr(92) + '|')} |"


def _keys(section: Mapping[str, Any], parent: str) -> Iterator[DescribedKey]:
    required: Sequence[str] = section.get("required", ())
    for name, described in section["properties"].items():
        default = "required" if name in required else _default_text(described)
        yield DescribedKey(name, _values_text(described, f"{parent}.{name}" if parent else name), default, described["description"])


def _section_of(described: Mapping[str, Any]) -> str:
    """The name of the section that is a key's value, or that its items are; else empty."""
    reference: str = described.get("$ref") or described.get("items", {}).get("$ref", "")
    items = described.get("items", {})
    for other in (*described.get("anyOf", ()), *described.get("oneOf", ()), *items.get("oneOf", ())):
        reference = reference or other.get("$ref", "")
    return reference.rpartition("/")[2]


def _default_text(described: Mapping[str, Any]) -> str:
    """A default as in YAML.

    >>> _default_text({"default": 1000000, "type": "integer"}), _default_text({"default": None}), _default_text({"default": ","})
    ('1,000,000', '–', '`","`')
    """
    default = described.get("default")
    if default is None or (default != [] and _section_of(described)):
        return "–"
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:,}"
    if isinstance(default, str) and default.replace(" ", "").replace("-", "").isalnum():
        return f"`{default}`"
    return f"`{json.dumps(default)}`"


def _values_text(described: Mapping[str, Any], anchor: str) -> str:
    """The kinds of values of a key.

    >>> _values_text({"enum": ["a", "b"]}, ""), _values_text({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}, "")
    ('`a`, `b`', 'text or integer')
    """
    if "oneOf" in described.get("items", {}):
        return f"a list of {_values_text(described['items'], anchor)}"
    if "oneOf" in described:
        return " or ".join(_values_text(each, anchor) for each in described["oneOf"])
    if _section_of(described):
        listed = "a list of " if described.get("type") == "array" else ""
        return f"{listed}[{anchor}](#{anchor.replace('.', '')})"
    if "enum" in described:
        return ", ".join(f"`{value}`" if value != "," else '`","`' for value in described["enum"])
    if "anyOf" in described:
        return " or ".join(_values_text(each, "") for each in described["anyOf"] if each.get("type") != "null")
    match described["type"]:
        case "array":
            return f"a list of {_values_text(described['items'], '')}"
        case "object":
            return f"a mapping to {_values_text(described['additionalProperties'], '')}"
        case "integer":
            return f"integer{_bounds_text(described)}"
        case "boolean":
            return "`true`, `false`"
        case _:
            return "text"


def _bounds_text(described: Mapping[str, Any]) -> str:
    least = described.get("minimum", described.get("exclusiveMinimum", -1) + 1 if "exclusiveMinimum" in described else None)
    most = described.get("maximum")
    if most is not None:
        return f", {least} to {most:,}"
    return "" if least is None else f" ≥ {least}"


if __name__ == "__main__":
    sys.stdout.write(page())
