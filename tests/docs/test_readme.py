"""README.md: short enough for five minutes, with a picture that the project draws and links that lead somewhere."""

from __future__ import annotations

import re
from typing import Final

import pytest

from dotr.commands import main
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

README: Final = ROOT / "README.md"
PICTURE: Final = "docs/fire.svg"
LONGEST: Final = 160
MOST_FIGURES: Final = 6
PAGES: Final = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def text() -> str:
    return README.read_text(encoding="utf-8")


def speed_table() -> list[str]:
    """The rows of figures, without the two lines of the header."""
    (table,) = re.findall(r"<!-- table speed -->\n(.*?)<!-- end of table -->", text(), re.DOTALL)
    return [line for line in table.splitlines() if line.startswith("|")][2:]


def test_it_is_read_in_five_minutes() -> None:
    assert text().count("\n") <= LONGEST


def test_figures_need_no_footnote() -> None:
    rows = speed_table()
    assert 0 < len(rows) <= MOST_FIGURES
    assert [row for row in rows if re.search(r"[ᵖ*]|wrong|cannot", row)] == []


def test_the_picture_is_what_explain_draws(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["explain", "configs/fire.yaml", "--format", "svg"]) == 0
    assert capsys.readouterr().out == (ROOT / PICTURE).read_text(encoding="utf-8")
    assert re.findall(r"!\[[^]]+\]\(([^)]+)\)", text()) == [PICTURE]


def test_each_page_is_named_and_each_link_leads_to_a_file() -> None:
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text()) if not link.startswith("http")]
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert [page for page in PAGES if f"docs/{page}" not in links] == []


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}" for name in PAGES if name != "errors.md")])
def test_links_to_sections_have_their_section(page: str) -> None:
    """The name of a section in a link is its heading as GitHub writes it: lower case, hyphens for blanks."""
    path = ROOT / page
    for link in re.findall(r"\]\(([\w./-]*#[^)]+)\)", path.read_text(encoding="utf-8")):
        target, _, section = link.partition("#")
        file = (path.parent / target) if target else path
        headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        names = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert section in names, f"{page}: {link}"
