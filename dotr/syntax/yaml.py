"""Reader of YAML to plain data with the span of every key and value.

Environment variables are substituted while reading: `${NAME}`, `${NAME:-default}`. Secrets
(`dotr.syntax.secrets`) are not substituted, and no message shows their values.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final, TypeAlias

import yaml

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model import dataclass
from dotr.model.places import Document, Span
from dotr.syntax.secrets import is_secret, is_variable, secret_ranges

KeyPath: TypeAlias = tuple[str | int, ...]
"""Path to a value: keys of mappings and positions in lists, from 0."""

_MAX_NODES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Tree:
    """YAML document as plain data, with the span of every value and key.

    `scalar_text` is the text of the scalars that are not strings, before conversion.
    """

    document: Document
    data: object
    spans: Mapping[KeyPath, Span]
    scalar_text: Mapping[KeyPath, str] = field(default_factory=dict)

    def span(self, location: KeyPath) -> Span:
        """The span of a value, or of the innermost value around a missing one."""
        while location and location not in self.spans:
            location = location[:-1]
        return self.spans.get(location, Span(self.document, 0, 0))

    @property
    def locations(self) -> list[KeyPath]:
        """The locations of all values."""
        return [location for location in self.spans if location[-1:] != (_KEY,)]

    def key_span(self, location: KeyPath) -> Span:
        """The span of a value's key."""
        return self.spans.get((*location, _KEY), self.span(location))

    def begins_with_variable(self, location: KeyPath) -> bool:
        """True if the text of a value begins with an environment variable that is set."""
        value_span = self.spans.get(location)
        variable = _ENVIRONMENT.match(value_span.text.lstrip("\"'")) if value_span is not None else None
        return variable is not None and variable[1] in os.environ


_KEY: Final = "<key>"
_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"


class _Loader(yaml.SafeLoader):
    """YAML loader without time stamps, and with true and false as the only booleans.

    12:30 and 010, numbers before YAML 1.2, are text.
    """


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", _INT, _FLOAT) and not (tag == "tag:yaml.org,2002:bool" and first not in "tTfF")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_Loader.add_implicit_resolver(_INT, re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)\Z"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(r"(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"),
    list("-+0123456789."),
)

_ENVIRONMENT: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


_SECRET_TEXT: Final = re.compile(r"((?:password|passphrase|secret|tokens?|pem|jaas\.config)[\"']?\s*[:=]\s*)([^\s#][^\n]*)", re.IGNORECASE)


def read_tree(document: Document, base: KeyPath = ()) -> Tree:
    """Read YAML with environment variables substituted. Raises `Refused` with all problems.

    `base` is the location in the configuration of which the document is a part (a `--set` option).

    >>> read_tree(Document("c.yaml", "a: [1, x]")).data
    {'a': [1, 'x']}
    """
    reading = _Reading(document, base)
    try:
        node = reading.loader.get_single_node()
        data = reading.value(node, ()) if node is not None else None
    except yaml.YAMLError as error:
        raise Refused([_yaml_error(error, _without_secrets(document))]) from None
    except RecursionError:
        raise Refused([Diagnostic("C102", f"{document.name} is nested too deeply", reading.current_span)]) from None
    except (ValueError, OverflowError):  # of an escape beyond U+10FFFF
        hint = "An escape is \\u00E9 or \\U0001F525; a backslash itself is \\\\, or stands in 'single quotes'."
        raise Refused([Diagnostic("C102", "this is no character", reading.current_span, hint)]) from None
    if reading.problems:
        if reading.written_secrets:
            hidden = Document(document.name, _masked(document.text, reading.written_secrets))
            raise Refused(replace(problem, span=problem.span and replace(problem.span, document=hidden)) for problem in reading.problems)
        raise Refused(reading.problems)
    return Tree(document, data, reading.spans, reading.scalar_text)


def _masked(text: str, ranges: Sequence[tuple[int, int]]) -> str:
    """A text with asterisks in place of the characters in some ranges, except line ends."""
    for start, end in ranges:
        text = text[:start] + re.sub(r"[^\n]", "*", text[start:end]) + text[end:]
    return text


def _without_secrets(document: Document) -> Document:
    """A document that is no YAML, with asterisks in place of the text behind keys of secrets."""
    return Document(document.name, _masked(document.text, [found.span(2) for found in _SECRET_TEXT.finditer(document.text)]))


class _Reading:
    """Traversal of the nodes of a document.

    `written_secrets` are the ranges of the text with a secret's value, which is an error.
    """

    def __init__(self, document: Document, base: KeyPath = ()) -> None:
        self.document = document
        self.base = base
        self.written_secrets: list[tuple[int, int]] = []
        self.loader = _Loader("")
        self.problems: list[Diagnostic] = []
        self.spans: dict[KeyPath, Span] = {}
        self.scalar_text: dict[KeyPath, str] = {}
        self._open_nodes: set[int] = set()
        self._node_count = 0
        try:
            self.loader = _Loader(document.text)
        except yaml.YAMLError as error:
            raise Refused([_yaml_error(error, _without_secrets(document))]) from None

    @property
    def current_span(self) -> Span:
        """The span of the loader's current character."""
        offset = min(self.loader.index, max(0, len(self.document.text) - 1))
        return Span(self.document, offset, offset + 1)

    def node_span(self, node: yaml.Node) -> Span:
        return Span(self.document, node.start_mark.index, node.end_mark.index)

    def value(self, node: yaml.Node, location: KeyPath) -> object:
        """The plain data of a node; records spans. Raises `Refused` for a cycle of aliases."""
        span = self.spans.setdefault(location, self.node_span(node))
        self._node_count += 1
        if self._node_count > _MAX_NODES or id(node) in self._open_nodes:
            reason = "an alias stands inside what it names" if id(node) in self._open_nodes else f"it has more than {_MAX_NODES:,} values"
            raise Refused([Diagnostic("C102", f"this cannot be read: {reason}", span, "Write it out without the alias.")])
        self._open_nodes.add(id(node))
        try:
            return self._plain_value(node, location, span)
        finally:
            self._open_nodes.discard(id(node))

    def _plain_value(self, node: yaml.Node, location: KeyPath, span: Span) -> object:
        match node:
            case yaml.MappingNode():
                mapping: dict[str, object] = {}
                for key_node, value_node in node.value:
                    if not isinstance(key_node, yaml.ScalarNode):
                        self.problems.append(Diagnostic("C102", "a key is a word", self.node_span(key_node), "Write key: value."))
                        continue
                    key = str(key_node.value)
                    if _SURROGATE.search(key):
                        self.problems.append(Diagnostic("C102", "half a surrogate pair is no character", self.node_span(key_node)))
                    if key in mapping:
                        self.problems.append(Diagnostic("C103", f"{key} is given twice", self.node_span(key_node), "Keep one of the two."))
                    self.spans[(*location, key, _KEY)] = self.node_span(key_node)
                    mapping[key] = self.value(value_node, (*location, key))
                return mapping
            case yaml.SequenceNode():
                return [self.value(item, (*location, number)) for number, item in enumerate(node.value)]
            case _:
                try:
                    scalar = self.loader.construct_object(node)
                except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # raised by the constructors of tags
                    tag = str(node.tag).rpartition(":")[2]
                    hint = "Leave the tag out." if "!" in span.text else "Put it in quotes: as a number it is too long."
                    self.problems.append(Diagnostic("C102", f"this is no {tag}", span, hint))
                    return None
                if isinstance(scalar, str) and _SURROGATE.search(scalar):
                    self.problems.append(
                        Diagnostic("C102", "half a surrogate pair is no character", span, "Write \\U0001F525, for example.")
                    )
                    return None
                if isinstance(scalar, str):
                    return self._substituted(scalar, span, (*self.base, *location))
                if scalar is not None:
                    if is_secret((*self.base, *location) or ("",)):
                        self._refuse_written_secret(span)
                    self.scalar_text[location] = node.value
                return scalar

    def _refuse_written_secret(self, span: Span) -> None:
        hint = "Write the environment variable that holds it, and nothing else: ${NAME}"
        self.problems.append(Diagnostic("C225", "a secret is written into the configuration", span, hint))
        self.written_secrets.append((span.start, span.end))

    def _substituted(self, text: str, span: Span, location: KeyPath) -> str:
        secrets = secret_ranges(location, text)
        if any(not is_variable(text[start:end]) for start, end in secrets):
            self._refuse_written_secret(span)
            return ""

        def expand(variable: re.Match[str]) -> str:
            if (variable.start(), variable.end()) in secrets:
                return variable[0]
            value: str | None = os.environ.get(variable[1], variable[2])
            if value is None:
                hint = f"Set it, or give a default: ${{{variable[1]}:-…}}"
                self.problems.append(Diagnostic("C104", f"the environment has no variable {variable[1]}", span, hint))
                return ""
            return value

        return _ENVIRONMENT.sub(expand, text)


def _yaml_error(error: yaml.YAMLError, document: Document) -> Diagnostic:
    match error:
        case yaml.reader.ReaderError():
            offset, reason = error.position, f"the character U+{int(error.character):04X} may not stand in it"
            return Diagnostic(
                "C102", f"this is not YAML: {reason}", Span(document, offset, offset + 1), "Save the file as plain text in UTF-8."
            )
        case yaml.MarkedYAMLError() if error.problem_mark is not None:
            offset, reason = error.problem_mark.index, (error.problem or "").removeprefix("but ")
            hint = (
                "Indent with spaces."
                if "'\\t'" in reason
                else "Indent alike, put a space behind each colon, and close every bracket and quote."
            )
            if reason.endswith("found ':'"):
                hint = 'A text that begins with a colon needs quotes: ":roomA".'
            if "constructor" in reason:
                hint = "Leave the tag (!…) out."
            if "another document" in reason:
                hint = "A file holds one document: remove what follows ---."
            return Diagnostic("C102", f"this is not YAML: {reason}", Span(document, offset, offset + 1), hint)
        case _:
            return Diagnostic("C102", f"this is not YAML: {' '.join(str(error).split())}", Span(document, 0, 0))


def set_values(tree: Tree, options: Sequence[str]) -> tuple[Tree, frozenset[KeyPath]]:
    """Apply `--set key.path=value` options to a copy of a tree; also returns the locations set.

    Raises `Refused` with every option of which the path or the value is invalid.

    >>> tree = read_tree(Document("c.yaml", "output: [{path: a}]"))
    >>> set_values(tree, ["output.0.path=b"])[0].data
    {'output': [{'path': 'b'}]}
    """
    data = copy.deepcopy(tree.data)
    spans = dict(tree.spans)
    overridden: set[KeyPath] = set()
    problems: list[Diagnostic] = []
    for option in options:
        path, equals, _ = option.partition("=")
        if not equals or not path:
            problems.append(Diagnostic("C105", f"--set {option} is not key.path=value", None, "For example --set output.0.path=x"))
            continue
        document = Document("--set", option)
        keys = _keys_of(path)
        try:
            value = _option_value(document, len(path) + 1, keys)
        except Refused as refused:
            problems += refused.diagnostics
            continue
        if not _set_at(data, keys, value):
            hint = "Positions in a list count from 0; one behind the last adds an entry."
            problems.append(Diagnostic("C105", f"the configuration has no place {path}", Span(document, 0, len(path)), hint))
            continue
        for location in [old for old in spans if old[: len(keys)] == keys]:
            del spans[location]
        spans[keys] = Span(document, len(path) + 1, len(option))
        overridden.add(keys)
    if problems:
        raise Refused(problems)
    return Tree(tree.document, data, spans), frozenset(overridden)


def _keys_of(path: str) -> KeyPath:
    """The keys of a path; keys of a Kafka section contain dots.

    >>> _keys_of("input.0.path"), _keys_of("input.0.kafka.sasl.password")
    (('input', 0, 'path'), ('input', 0, 'kafka', 'sasl.password'))
    """
    outer, kafka, inner = path.partition(".kafka.")
    keys = [*outer.split("."), *(("kafka", inner) if kafka else ())]
    return tuple(int(key) if key.isdecimal() else key for key in keys)


def _option_value(document: Document, start: int, location: KeyPath) -> object:
    """The text behind the equals sign as YAML; an empty text is a string, and so is `-`."""
    text = document.text[start:]
    if text == "-":
        return text
    try:
        return read_tree(Document("--set", text), location).data if text.strip() else ""
    except Refused as refused:
        shown = {d.span.document.text for d in refused.diagnostics if d.span}
        hidden = Document("--set", document.text[:start] + shown.pop()) if shown and not is_secret(location) else None
        hidden = hidden or Document("--set", document.text[:start] + "***")
        raise Refused(
            replace(
                d,
                span=d.span and Span(hidden, min(start + d.span.start, len(hidden.text)), min(start + d.span.end, len(hidden.text))),
                hint=d.hint if d.code == "C225" else f"It is read as YAML. {d.hint}".strip(),
            )
            for d in refused.diagnostics
        ) from None


def _set_at(target: object, keys: KeyPath, value: object) -> bool:
    """Set a value in nested data, adding missing containers; False if the path does not exist."""
    for key, following in zip(keys, (*keys[1:], None), strict=True):
        item: object = value if following is None else {} if isinstance(following, str) else []
        match target:
            case list() if isinstance(key, int) and key <= len(target):
                if key == len(target):
                    target.append(item)
                elif following is None:
                    target[key] = item
                target = target[key]
            case dict():
                name = str(key)
                if following is None or target.get(name) is None:
                    target[name] = item
                target = target[name]
            case _:
                return False
    return True
