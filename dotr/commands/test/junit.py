"""Reports on a run of rule tests in the XML of JUnit, as servers of continuous integration read
it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree

from dotr.commands.test.reports import counts
from dotr.commands.test.run import Outcome

_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that an XML 1.0 document may not contain (section 2.2)."""


def junit_report(outcomes: Sequence[Outcome]) -> bytes:
    """Report in the XML of JUnit: a suite for each file, a test case for each case.

    A file that cannot be run is a test case with an error.

    >>> print(junit_report([Outcome("t.yaml", "stuffy", 20)]).decode())
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites tests="1" failures="0" errors="0" time="0.000000">
      <testsuite name="t.yaml" tests="1" failures="0" errors="0" skipped="0" time="0.000000">
        <testcase classname="t.yaml" name="stuffy" file="t.yaml" line="20" time="0.000000" />
      </testsuite>
    </testsuites>
    """
    root = ElementTree.Element("testsuites", _totals(outcomes))
    for file, cases in _by_file(outcomes):
        suite = ElementTree.SubElement(root, "testsuite", {"name": _xml(file)} | _totals(cases, {"skipped": "0"}))
        for case in cases:
            suite.append(_test_case(case))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _totals(outcomes: Sequence[Outcome], further: dict[str, str] | None = None) -> dict[str, str]:
    total = counts(outcomes)
    numbers = {"tests": str(len(outcomes)), "failures": str(total.failed), "errors": str(total.unread)}
    return numbers | (further or {}) | {"time": f"{sum(each.seconds for each in outcomes):.6f}"}


def _by_file(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[Outcome]]]:
    files: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        files.setdefault(outcome.file, []).append(outcome)
    yield from files.items()


def _test_case(outcome: Outcome) -> ElementTree.Element:
    place = {"file": outcome.file, "line": str(outcome.line)} if outcome.line else {"file": outcome.file}
    attributes = {"classname": outcome.file, "name": outcome.case or outcome.file, **place, "time": f"{outcome.seconds:.6f}"}
    case = ElementTree.Element("testcase", {name: _xml(value) for name, value in attributes.items()})
    if outcome.problems:
        error = ElementTree.SubElement(case, "error", {"message": _xml(outcome.problems[0].message), "type": outcome.problems[0].code})
        error.text = _xml("\n\n".join(map(str, outcome.problems)))
    elif outcome.findings:
        first = outcome.findings[0]
        message = _xml(first.text.splitlines()[0].strip())
        failure = ElementTree.SubElement(case, "failure", {"message": message, "type": first.kind.value})
        failure.text = _xml(f"{outcome.place}: {outcome.case}\n{outcome.difference}")
    if outcome.notes:
        ElementTree.SubElement(case, "system-out").text = _xml("\n".join(f"note: {note}" for note in outcome.notes))
    return case


def _xml(text: str) -> str:
    r"""Text without the characters that XML excludes.

    >>> _xml("a\x00b\ud800")
    'a\\u0000b\\uD800'
    """
    return _NOT_IN_XML.sub(lambda found: f"\\u{ord(found[0]):04X}", text)
