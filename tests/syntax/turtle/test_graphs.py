"""Graphs of a stream: what is read token by token has the triples, and the errors, that pyoxigraph finds in the text."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from dotr.model.terms import RDF, XSD, Triple
from dotr.syntax.turtle import graphs
from dotr.syntax.turtle.graphs import PrefixHeader, TurtleReader, read_turtle

pytestmark = pytest.mark.core

COUNT: Final = 100 * int(os.environ.get("DOTR_EXAMPLES", "40"))
PREFIXES: Final = {
    "": "http://e/",
    "e": "http://e/x#",
    "port": "http://e:80",
    "u": "urn:x:",
    "xsd": XSD,
    "rdf": RDF,
    "a": "http://a/",
    "q-": "http://b/?q=",
    "true": "http://t/",
    "PREFIX": "http://p/",
}
"""Namespaces with names behind which no IRI stands, and names that are words of Turtle."""

PLAIN: Final = (
    ":s :p :o .",
    "<http://e/s> a <urn:x:y> .",
    ':s :p 5, -5.5, .5, 1e3, "x", \'y\', "two words", "é😀", true, "z"@en, "5"^^xsd:byte, "x"^^xsd:string, "x"^^<http://d> .',
    ":s a :C; :p 1 ; :q 2,3 .\n:t :p :u.",
    "_:b :p [], _:c, _:b . [] :q [] .",
    "  \n:s\t:p\r\n:o\n.\n",
    ":s :p :o . :s :p :o .",
)
LEXEMES: Final = (
    *(":a", "e:x", "e:1-a", "port:x", "port:0", "u:a", "u:", "a:", "a", "a:x", "q-:v", "true:x", "true", "TRUE", "no:x", "PREFIX:a", "::"),
    *(":é", ":a%41", ":a\\-b", ":a.b", ":a:b", ":a.", ":a#b", "5", "-5", "5.", ".5", "1.e3", "1E-3", "-", "5a", "1e", "\u0663"),
    *('"x"', '"x y"', '""', '"""', '"""x"""', "''", "'x'", "'x\"y'", "'''", '"a\\n"', '"a\nb"', '"a\tb"', '"\x7f"', '"é"'),
    *('"\u2028"', '"😀"'),
    *('"x"@en', '"x"@EN', '"x"@en-us', '"x"@abcdefghi', '"x"@en--ltr', '"x"^^xsd:string', '"x"^^rdf:langString', '"x"^^<d>', '"x"^^no:d'),
    *('"x"^^', '"x"^^_:b', '"x"^^a', "_:x", "_:1", "_:x.y", "_:é", "[]", "[ ]", "[", "]", "[ :p 5 ]", "()", "( 1 )", "<http://e/a>", "<a>"),
    *("<>", "<#x>", "<http://e/%zz>", "<http://e/a b>", "<http://e/\\u0041>", "<http://[::1]/>", "<http://e/[>", "<http://e:x>"),
    *("<a:>", "<:>"),
    *("<http://e/#a#b>", "<http://e/a/../b>", "<<", "<<(", ")>>", ">>", "{", "}", "{|", "|}", "~", ".", ";", ",", ";;", "..", "#", "# x\n"),
    *("@prefix : <http://z/> .", "@base <http://z/> .", "PREFIX : <http://z/>", "BASE <http://z/>", 'VERSION "1.2"', "GRAPH", "MESSAGE"),
    *('"\u2028"', '"\x80"', '"\ufffe"', "'\uffff'", '"\udfff"', '"x\x1f"', "<:>", "=>", "=", "^", "|", "\\", "é", "\x00"),
    *("\ufeff", "\xa0", "\ud800", "is", "of", "$", "`"),
)
"""Tokens of Turtle, whole and broken, and what ends or opens a graph elsewhere."""

BLANKS: Final = (*[" "] * 12, "", "\n", "\t", "\r", "  ", "\x0b", "\x1f", "\x85", "\xa0", "\u2028")


def hostile(choose: Random) -> str:
    """A plain graph with some tokens replaced, added, cut or moved together; or tokens in any order."""
    if choose.random() < 0.2:
        return "".join(choose.choice(LEXEMES) + choose.choice(BLANKS) for _ in range(choose.randrange(1, 8)))
    text = " ".join(choose.choice(PLAIN) for _ in range(choose.randrange(1, 3)))
    for _ in range(choose.randrange(3)):
        at = choose.randrange(len(text) + 1)
        end = at + choose.choice((0, 0, 1, 3))
        text = text[:at] + choose.choice((choose.choice(LEXEMES), choose.choice(BLANKS), "")) + text[end:]
    tokens = text.split(" ")
    if choose.random() < 0.4:
        tokens[choose.randrange(len(tokens))] = choose.choice(LEXEMES)
    start = choose.randrange(len(tokens))
    return " ".join(tokens[start : start + 4] if choose.random() < 0.4 else tokens)


def outcome(read: Callable[[], tuple[Triple, ...]]) -> object:
    try:
        return read()
    except ValueError as error:
        return type(error), str(error)


def test_every_text_has_the_triples_and_the_error_of_the_parser() -> None:
    choose, header, warm = Random(COUNT), PrefixHeader(PREFIXES), TurtleReader(PREFIXES)
    for _ in range(COUNT):
        text = hostile(choose)
        expected = outcome(lambda text=text: read_turtle(header.prepend_to(text), text))  # type: ignore[misc]
        warm._parsed = 0
        for reader in (TurtleReader(PREFIXES), warm):
            assert outcome(lambda reader=reader, text=text: reader.read(text)) == expected, repr(text)  # type: ignore[misc]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_graph_needs_no_parser(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_turtle(PrefixHeader(PREFIXES).prepend_to(text), text)
    monkeypatch.setattr(graphs, "parse", None)
    reader = TurtleReader(PREFIXES)
    assert [reader.read(text), reader.read(text)] == [expected, expected]


def test_plain_graphs_are_read_as_such_behind_others() -> None:
    reader, tried = TurtleReader(PREFIXES), []
    for number in range(40):
        reader.read(':s :p "\\n" .' if number < 20 else ":s :p :o .")
        tried.append(reader._parsed == 0)
    assert tried.index(True) < 36
    assert all(tried[36:])


def test_terms_are_bounded() -> None:
    reader = TurtleReader(PREFIXES)
    long = "x" * 1000
    for number in range(20_000):
        reader.read(f':s{number} :p{number} "{long}" .')
    assert len(reader._terms) <= graphs._MOST_TERMS
    assert len(reader._predicates) <= graphs._MOST_TERMS
    assert f'"{long}"' not in reader._terms


@pytest.mark.parametrize("text", [":" + "a" * 65_000 + "\\", "_:" + "a." * 32_000, '"' + "a" * 65_000, ":a " * 21_000, "a" * 65_000])
def test_cost_of_a_long_text_is_linear(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that begins anew at every character would take minutes."""
    monkeypatch.setattr(graphs, "read_turtle", lambda document, text: ())
    assert TurtleReader(PREFIXES).read(text) == ()


def test_readers_of_the_same_prefixes_are_one() -> None:
    prefixes = tuple(PREFIXES.items())
    assert TurtleReader.of(prefixes) is TurtleReader.of(tuple(PREFIXES.items()))
    assert TurtleReader.of(prefixes[:1]).read(":s a :C .") == (("<http://e/s>", f"<{RDF}type>", "<http://e/C>"),)
