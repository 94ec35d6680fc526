"""Rewriting the expectations of rule tests from their outputs, in place.

Idea: differences become edits of the YAML text at the spans of its values, so that comments and
layout are preserved. The new text is parsed again: unless the case then passes and the rest of the
file has the same data, the case is left unchanged.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from dotr.commands.test.cases import LoadedTest, read_cases
from dotr.commands.test.difference import Discrepancy, Item, attribute_terms, attributes_text, entry_text, graph_text, scalar_text
from dotr.commands.test.files import parse_file
from dotr.errors.diagnostics import Refused
from dotr.model import dataclass
from dotr.model.places import Document
from dotr.syntax.yaml import KeyPath, Tree

_Part: TypeAlias = Literal["expect", "facts"]
_PARTS: Final[tuple[_Part, ...]] = ("expect", "facts")


class Edit(NamedTuple):
    """Replacement of the text between two offsets."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Apply edits that do not overlap; insertions at one offset keep their order.

    >>> edited("abc", [Edit(2, 3, "C"), Edit(0, 1, ""), Edit(2, 2, "-")])
    'b-C'
    """
    for _, edit in sorted(enumerate(edits), key=lambda each: (each[1].start, each[1].end, each[0]), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def updated(test: LoadedTest, number: int) -> LoadedTest | None:
    """The test with the expectations of a case rewritten; None where they cannot be.

    `number` counts the case from 0. The file is not written.
    """
    result = test.run(number)
    if result.broken:
        return None
    edits: list[Edit] = []
    for part, found in zip(_PARTS, (result.outputs, result.facts), strict=True):
        if found:
            edits += _ListEdits(test, number, part).edits(found)
    document = test.file.tree.document
    try:
        file, problems = parse_file(Document(document.name, edited(document.text, edits)))
    except Refused:
        return None
    cases = read_cases(file, problems)
    after = LoadedTest(file, test.program, cases)
    unchanged = _without_expectations(test.file.tree, number) == _without_expectations(file.tree, number)
    return after if not problems and unchanged and after.run(number).passed else None


def _without_expectations(tree: Tree, number: int) -> object:
    """Data of a test file without the expectations of a case."""
    data = copy.deepcopy(tree.data)
    if isinstance(data, dict):
        for part in _PARTS:
            data["cases"][number].pop(part, None)
    return data


def write_update(before: Document, after: Document) -> str:
    """Rewrite a test file with its line ends and its byte order mark; returns the diff."""
    path = Path(before.name)
    raw = path.read_bytes()
    text = after.text.replace("\n", "\r\n") if b"\r\n" in raw else after.text
    path.write_bytes((b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b"") + text.encode())
    lines = difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), before.name, before.name, lineterm="")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Offsets of the values of a YAML document."""

    tree: Tree

    def start(self, location: KeyPath) -> int:
        """The offset at which a value begins."""
        return self.tree.spans[location].start

    def end(self, location: KeyPath) -> int:
        """The offset behind a value, without the comments and line ends that follow it."""
        span = self.tree.spans[location]
        if self.is_flow(location):
            return span.end
        children = [each for each in self.tree.spans if len(each) == len(location) + 1 and each[:-1] == location and each[-1] != "<key>"]
        if children:
            return max(self.end(child) for child in children)
        return span.start + len(span.text.rstrip())

    def is_flow(self, location: KeyPath) -> bool:
        """True if a value is written in brackets or braces."""
        return self.tree.spans[location].text[:1] in ("[", "{")

    def in_flow(self, location: KeyPath) -> bool:
        """True if a value is inside brackets or braces."""
        return any(self.is_flow(location[:length]) for length in range(len(location)))

    def line_start(self, offset: int) -> int:
        """The offset of the first character of a line."""
        return self.tree.document.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """The offset of the first character of the next line."""
        end = self.tree.document.text.find("\n", offset)
        return len(self.tree.document.text) if end < 0 else end + 1


class _ListEdits:
    """Edits of `expect` or `facts` of a case."""

    def __init__(self, test: LoadedTest, number: int, part: _Part) -> None:
        self.test = test
        self.case = test.cases[number]
        self.location: KeyPath = ("cases", number, part)
        self.part = part
        self.layout = _Layout(test.file.tree)
        self.text = test.file.tree.document.text
        self.prefixes = test.file.expected_prefixes
        self.expected: Sequence[Item] = (self.case.outputs if part == "expect" else self.case.facts) or ()

    def edits(self, found: Sequence[Discrepancy]) -> Iterator[Edit]:
        """The edits that make the expectations those of the outputs."""
        removed: set[int] = set()
        added: list[Item] = []
        for each in found:
            if each.expected is not None and each.number is not None and each.actual is not None:
                yield from self._changed(each.number, each.expected, each.actual)
            elif each.number is not None:
                removed.add(each.number)
            elif each.actual is not None:
                added.append(each.actual)
        texts = [(item, entry_text(item, self._keys_to_write(), self.case.clock, self.prefixes)) for item in added]
        if not self.expected:
            yield from self._first(texts)
        elif self.layout.is_flow(self.location):
            yield from self._in_flow(removed, texts)
        else:
            yield from self._in_block(removed, texts)

    def _changed(self, number: int, expected: Item, actual: Item) -> Iterator[Edit]:
        """Edits of the fields of an expectation."""
        location = (*self.location, number)
        if expected.attributes is not None and actual.attributes is not None and expected.attributes != actual.attributes:
            before, after = attribute_terms(expected.attributes), attribute_terms(actual.attributes)
            keys = {str(key).removeprefix("?"): key for key in self._keys((*location, "attributes"))}
            if before.keys() == after.keys() == keys.keys():
                for name, term in after.items():
                    if before[name] != term:
                        yield self._replaced((*location, "attributes", keys[name]), self._scalar(term))
            else:
                yield self._replaced((*location, "attributes"), attributes_text(actual.attributes, self.prefixes))
        if expected.graph is not None and actual.graph is not None and expected.graph != actual.graph:
            yield self._replaced((*location, "graph"), scalar_text(graph_text(actual.graph, self.prefixes)))

    def _scalar(self, term: str) -> str:
        (_, _, text) = attributes_text({f"x: {term}"}, self.prefixes)[2:-2].partition(": ")
        return text

    def _keys(self, location: KeyPath) -> list[str | int]:
        return [each[-1] for each in self.test.file.tree.spans if len(each) == len(location) + 1 and each[:-1] == location]

    def _replaced(self, location: KeyPath, text: str) -> Edit:
        return Edit(self.layout.start(location), self.layout.end(location), text)

    def _keys_to_write(self) -> set[str]:
        """The keys of a new entry: those of the other expectations of the case, else of the
        file."""
        if self.part == "facts":
            return {"fact", "attributes"}
        cases = self.test.file.section.cases
        for sections in ([cases[int(self.location[1])]], cases):
            known = [expected for case in sections for expected in case.expect or ()]
            if known:
                return {key for key in ("rule", "attributes", "graph") if any(getattr(each, key) is not None for each in known)}
        return {"attributes"}

    # --- new and removed entries ---

    def _first(self, texts: Sequence[tuple[Item, str]]) -> Iterator[Edit]:
        """Entries of a list that was empty: a block of lines, unless the case is in braces."""
        if not texts:
            return
        span = self.test.file.tree.spans[self.location]
        if self.layout.in_flow(self.location):
            yield Edit(span.start, span.end, f"[ {', '.join(text for _, text in texts)} ]")
            return
        key = self.test.file.tree.key_span(self.location)
        indent = " " * (key.start - self.layout.line_start(key.start) + 2)
        before = self.text[: span.start].rstrip(" ")
        yield Edit(len(before), span.end, "")
        yield Edit(self.layout.line_end(span.end), self.layout.line_end(span.end), self._lines(indent, texts, span.end))

    def _lines(self, indent: str, texts: Sequence[tuple[Item, str]], after: int) -> str:
        """Entries as lines to insert at the offset `after`, behind a line end if the file ends
        without one."""
        begin = "" if "\n" in self.text[after:] else "\n"
        return begin + "".join(f"{indent}- {text}\n" for _, text in texts)

    def _place(self, item: Item) -> int:
        """The index at which a new entry is inserted: behind all entries that are not later."""
        return max((number + 1 for number, each in enumerate(self.expected) if each.time <= item.time), default=0)

    def _in_block(self, removed: set[int], texts: Sequence[tuple[Item, str]]) -> Iterator[Edit]:
        """Edits of a list of lines."""
        first = (*self.location, 0)
        dash = self.text.rfind("-", 0, self.layout.start(first))
        indent = self.text[self.layout.line_start(dash) : dash]
        for number in sorted(removed):
            location = (*self.location, number)
            start = self.text.rfind("-", 0, self.layout.start(location))
            yield Edit(self.layout.line_start(start), self.layout.line_end(self.layout.end(location)), "")
        for each in texts:
            place = self._place(each[0])
            if place:
                end = self.layout.end((*self.location, place - 1))
                yield Edit(self.layout.line_end(end), self.layout.line_end(end), self._lines(indent, [each], end))
            else:
                yield Edit(self.layout.line_start(dash), self.layout.line_start(dash), self._lines(indent, [each], 0))
        if len(removed) == len(self.expected) and not texts:
            colon = self.text.index(":", self.test.file.tree.key_span(self.location).end) + 1
            yield Edit(colon, colon, " []")

    def _in_flow(self, removed: set[int], texts: Sequence[tuple[Item, str]]) -> Iterator[Edit]:
        """Edits of a list in brackets."""
        ends = [self.layout.end((*self.location, number)) for number in range(len(self.expected))]
        starts = [self.layout.start((*self.location, number)) for number in range(len(self.expected))]
        span = self.test.file.tree.spans[self.location]
        if len(removed) == len(self.expected):
            yield Edit(span.start, span.end, f"[ {', '.join(text for _, text in texts)} ]" if texts else "[]")
            return
        lines = [self.layout.line_start(start) for start in starts]
        own_lines = lines[0] > span.start and len(set(lines)) == len(lines)
        between = ",\n" + " " * (starts[0] - lines[0]) if own_lines else ", "
        kept = [number for number in range(len(self.expected)) if number not in removed]
        for number in sorted(removed):
            last = number + 1 == len(self.expected)
            if own_lines:
                yield Edit(lines[number], self.layout.line_end(ends[number]) if last else lines[number + 1], "")
            elif number < kept[-1]:
                yield Edit(starts[number], starts[number + 1], "")
            else:
                yield Edit(ends[number - 1], ends[number], "")
        for item, text in texts:
            before = [number for number in kept if number < self._place(item)]
            if before:
                yield Edit(ends[before[-1]], ends[before[-1]], between + text)
            else:
                yield Edit(starts[kept[0]], starts[kept[0]], text + between)
