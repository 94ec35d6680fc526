"""Elements of a stream that may not stop a run, blow it up or blind it, and a pipeline that meets them among good ones.

Each stands alone at its own time, between two good elements of its file. What is expected: all that the good elements lead to, in each of
the four languages, and for each hostile one a dead letter with its place, its reason and `error`. All are in one stream, so one run in
process and one on Spark meet every case; a new case is an entry of a list below. The stages' own failures are injected
(`tests.support.faults`): the closure fails at the value 13, and queries of `:hurt` at 17.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

LIMITS: Final = {
    "triples": 500,
    "rows": 200,
    "probes": 300,
    "matches": 100,
    "literal": 1000,
    "text": 20_000,
    "nesting": 20,
    "record": 500_000,
}
RULES: Final = """PREFIX : <http://e/>
rule Good define Good = [ [] :x ?x ] from G = [ SELECT ?x WHERE { ?x a :Good } ] with Good.?x = G.?x
rule Pair "It remembers the good element before, whatever came between."
define Pair = [ [] :x ?x ; :after ?y ] from G = [ SELECT ?x WHERE { ?x a :Good } ] and last H = [ SELECT ?x WHERE { ?x a :Good } ]
within 1 d from G with Pair.?x = G.?x, Pair.?y = H.?x
rule Product define Product = [ [] :x ?a ; :y ?b ] from P = [ SELECT ?a ?b WHERE { ?a a :Left . ?b a :Right } ]
with Product.?a = P.?a, Product.?b = P.?b
query W = [ SELECT ?x WHERE { ?x a :Wide } ]
rule Wide "Each anchor has as many matches as there are pairs of the others."
define Wide = [ [] :x ?x ] from W
and each W as V within [0, 10 s] from W and each W as U within [0, 10 s] from W with Wide.?x = W.?x
rule Tried "Each anchor tries all others, and none is one."
define Tried = [ [] :x ?x ] from T = [ SELECT ?x WHERE { ?x a :Tried } ]
and each O = [ SELECT ?y WHERE { ?y a :Other FILTER(STRLEN(STR(?y)) > 1000 + STRLEN(STR(T.?x))) } ] within [0, 1 d] from T
with Tried.?x = T.?x
rule Long "The value is computed, and far longer than what it is computed of."
define Long = [ [] :x ?l ] from L = [ SELECT ?l WHERE { ?x :long ?v BIND(REPLACE(?v, "a", ?v) AS ?l) FILTER(BOUND(?l)) } ]
with Long.?l = L.?l
rule Text "Each value may be, and all together may not."
define Text = [ [] :x ?l ] from T = [ SELECT ?l WHERE { ?x :text ?v BIND(CONCAT(?v, ?v) AS ?l) } ] with Text.?l = T.?l
query J = [ SELECT ?v ?g WHERE { ?x :join ?v ; :of ?g } ]
rule Joined "Each anchor joins its text with that of all others."
define Joined = [ [] :x ?l ] from J and each J as K [ FILTER(?g = J.?g) ] within [0, 1 s] from J
with Joined.?l = CONCAT(J.?v, K.?v)
query Q = [ SELECT ?v ?g WHERE { ?x :quote ?v ; :of ?g } ]
rule Quoted "Each anchor makes triple terms of the texts of all others."
define Quoted = [ [] :x <<( :a :p ?v )>> ] from Q and each Q as K [ FILTER(?g = Q.?g) ] within [0, 1 s] from Q
with Quoted.?v = K.?v
rule Hurt define Hurt = [ [] :x ?x ] from H = [ SELECT ?x WHERE { ?s :hurt ?x } ] with Hurt.?x = H.?x
"""
UNITS: Final = {
    "u.rspql": """PREFIX : <http://e/>
REGISTER RSTREAM Seen AS SELECT ?x FROM WINDOW ON :all [RANGE 50s STEP 50s ENTAILMENT NONE] WHERE { ?x a :Good }
REGISTER RSTREAM Wider AS SELECT ?x FROM WINDOW ON :all [RANGE 50s STEP 50s ENTAILMENT NONE] WHERE { ?x a :WindowLeft . ?y a :WindowRight }
""",
    "u.lars": """PREFIX : <http://e/>
RESOLUTION 50 s .
Met(?x) :- :Good(?x) IN [0] .
REPORT Met(?x) .
Grid(?x, ?y) :- :GridLeft(?x) IN [0], :GridRight(?y) IN [0] .
REPORT Grid(?x, ?y) .
""",
    "u.epsparql": """PREFIX : <http://e/>
REGISTER QUERY After AS SELECT ?x ?y WHERE { ?x a :Good } SEQ { ?y a :Good } WITHIN 1 h POLICY RECENT
REGISTER QUERY Many AS SELECT ?x ?y WHERE { ?x a :Begun } SEQ { ?y a :Ended } WITHIN 5 min
""",
    "r.dlog": """:path(?z, ?q) :- :link(?y, ?z), BIND(STR(?y) AS ?q) .
:path(?z, ?q) :- :path(?y, ?p), :link(?y, ?z), BIND(CONCAT(?p, STR(?z)) AS ?q) .
""",
    "r.lars": """PREFIX : <http://e/>
Path(?z, ?q) :- :step(?y, ?z) IN [0 s], BIND(STR(?y) AS ?q) .
Path(?z, ?q) :- Path(?y, ?p), :step(?y, ?z) IN [0 s], BIND(CONCAT(?p, STR(?z)) AS ?q) .
REPORT Path(?z, ?q) .
""",
    "r.rspql": """PREFIX : <http://e/>
REGISTER RSTREAM Window AS SELECT ?l FROM NAMED WINDOW :w ON :all [NOW]
WHERE { WINDOW :w { ?x :window ?v BIND(CONCAT(?v, ?v) AS ?l) } }
""",
    "r.epsparql": """PREFIX : <http://e/>
REGISTER QUERY Interval AS SELECT (CONCAT(?v, ?v) AS ?l) WHERE { { ?x :interval ?v } EQUALS { ?x :lasts ?t } }
""",
}
"""The units of other languages: of each file `u` the first makes an event of each good element, the last goes over limits; each
file `r` computes text."""
CONFIG: Final = """name: hostile
prefixes: {{ "": "http://e/" }}
limits: {limits}
rules: [r.dotr, {units}]
knowledge: {{ datalog: [r.dlog] }}
input:
  - {{ name: ndjson, stream: ":all", format: ndjson, path: a.ndjson }}
  - {{ name: trig, stream: ":all", format: trig, path: a.trig }}
  - {{ name: nquads, stream: ":all", format: nquads, path: a.nq }}
  - {{ name: csv, stream: ":all", format: csv, path: a.csv, time: t, map: "x:{{id}} a :{{kind}}", delimiter: "," }}
  - {{ name: gzip, stream: ":all", format: ndjson, path: a.ndjson.gz }}
  - {{ name: log, stream: ":all", format: turtle, path: a.ttls, time: ":t" }}
  - {{ name: jsonld, stream: ":all", format: jsonld, path: a.jsonld, time: ":t" }}
output: [{{ path: {out}/out.ndjson }}]
dead_letter: {out}/dead.ndjson
spark: {{ master: "local[2]", checkpoint: {out}/checkpoint, batch: 40, conf: {{ spark.python.daemon.module: tests.support.faults }} }}
"""
FILES: Final = {
    "ndjson": "a.ndjson",
    "trig": "a.trig",
    "nquads": "a.nq",
    "csv": "a.csv",
    "gzip": "a.ndjson.gz",
    "log": "a.ttls",
    "jsonld": "a.jsonld",
}
_HEADS: Final = {
    "trig": b"@prefix : <http://e/> .\n@prefix prov: <http://www.w3.org/ns/prov#> .\n",
    "csv": b"t,id,kind\n",
    "log": b'VERSION "1.2-messages"\nPREFIX : <http://e/>\n',
}
_TIME: Final = "<http://www.w3.org/ns/prov#generatedAtTime>"
_INTEGER: Final = "<http://www.w3.org/2001/XMLSchema#integer>"


class Hostile(NamedTuple):
    """A record as it stands in its file, with `$T` for its time, and the dead letter that it is: its reason, a part of its `error`, and the
    input that it names where that is not the file's (None: there is no letter, and no output either). `letters` is how many there are, and
    `file` is that of the rule or the unit that `input` names."""

    name: str
    format: str
    record: bytes
    reason: str | None
    error: str = ""
    input: str = ""
    letters: int = 1
    file: str = "r.dotr"


def _line(graph: str) -> bytes:
    return b'{"time": $T, "graph": %s}\n' % json.dumps(graph, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _block(graph: str) -> bytes:
    return f":g$T {{ {graph} }}\n:g$T prov:generatedAtTime $T .\n".encode()


def _quads(*triples: str) -> bytes:
    lines = [f"{triple} <http://e/g$T> .\n" for triple in triples]
    return "".join([*lines, f'<http://e/g$T> {_TIME} "$T"^^{_INTEGER} .\n']).encode()


def _message(graph: str) -> bytes:
    return f"{graph} .\n:a$T :t $T .\nMESSAGE\n".encode()


def _document(**members: object) -> bytes:
    return json.dumps({**members, "http://e/t": 0}).replace('"http://e/t": 0', '"http://e/t": $T').encode() + b"\n"


def _deep(depth: int, prefix: str = ":") -> str:
    """A triple term in a triple term, and so on."""
    a, p = (f"{prefix}a", f"{prefix}p") if prefix == ":" else ("<http://e/a>", "<http://e/p>")
    return f"<<( {a} {p} " * depth + a + " )>>" * depth


def _many(kind: str, count: int) -> str:
    return " ".join(f":{kind}$Tn{n} a :{kind} ." for n in range(count))


def _texts(predicate: str, size: int = 400, key: str = "") -> str:
    """Thirty texts of a size, of one subject if a key is given: on Spark a unit of EP-SPARQL counts by its key."""
    return " ".join(f'{key or f":s{n}"} :of :g ; :{predicate} "{n:02}{"x" * (size - 2)}" .' for n in range(30))


_MORE_TEXT: Final = "more than 20,000 bytes of computed terms"
_AT: Final = {
    "lars": ("rule r.lars", 1, "r.lars"),
    "rspql": ("rule Window", 1, "r.rspql"),
    "epsparql": ("rule Interval", 1, "r.epsparql"),
}

NOW: Final[Sequence[Hostile]] = (
    Hostile("no JSON", "ndjson", b'{"time": $T, "graph": \n', "unreadable"),
    Hostile("a JSON value that is no object", "ndjson", b"[1, 2]\n", "unreadable"),
    Hostile("no time", "ndjson", b'{"graph": ":a a :Good ."}\n', "unreadable"),
    Hostile("a time beyond all times", "ndjson", b'{"time": 1%s, "graph": ""}\n' % (b"0" * 30), "unreadable"),
    Hostile("an integer of 5,000 digits for a time", "ndjson", b'{"time": %s, "graph": ""}\n' % (b"9" * 5000), "unreadable"),
    Hostile("no UTF-8", "ndjson", b'{"time": $T, "graph": ":a :p \\"\xff\\" ."}\n', "unreadable"),
    Hostile("half a character", "ndjson", b'{"time": $T, "graph": ":a :p \\"\\ud800\\" ."}\n', "unreadable"),
    Hostile("zeros", "ndjson", b"\0" * 100 + b"\n", "unreadable"),
    Hostile("a prefix that nobody declared", "ndjson", _line("q:a a :Good ."), "unreadable"),
    Hostile("characters that a terminal obeys", "ndjson", b'{"time": $T, "graph": "\x1b[2J\xc2\x9b31m"}\n', "unreadable"),
    Hostile("an escape that is no character", "ndjson", _line(r':a :p "\U00110000" .'), "unreadable"),
    Hostile("a graph that is an object", "ndjson", b'{"time": $T, "graph": {"@id": "http://e/a"}}\n', "unreadable"),
    Hostile("broken TriG", "trig", b":g$T { :a :p } :g$T prov:generatedAtTime $T .\n", "unreadable"),
    Hostile("a graph without a time", "trig", b":g$T { :a a :Good }\n", "unreadable"),
    Hostile("a broken quad", "nquads", b"<http://e/a> <http://e/p> .\n", "unreadable"),
    Hostile("a literal as a subject", "nquads", b'"a" <http://e/p> <http://e/o> <http://e/g$T> .\n', "unreadable"),
    Hostile("too few cells", "csv", b"$T\n", "unreadable"),
    Hostile("no time in its cell", "csv", b"soon,a,Good\n", "unreadable"),
    Hostile("a message that is not finished", "log", b":a :t $T ; :p\nMESSAGE\n", "unreadable"),
    Hostile("a message without a time", "log", b":a a :Good .\nMESSAGE\n", "unreadable", "it has no <http://e/t>"),
    Hostile("a message with two times", "log", _message(":a :t 1"), "unreadable", "it has more than one <http://e/t>"),
    Hostile("a message with a quote that is not closed", "log", _message(':a :p "x'), "unreadable"),
    Hostile("a message that is no UTF-8", "log", b':a :p "\xff" ; :t $T .\nMESSAGE\n', "unreadable", "UTF-8"),
    Hostile("an empty message", "log", b"MESSAGE\n", None),
    Hostile("a message that undoes a prefix, and gives it back", "log", b"PREFIX : <http://f/>\nPREFIX : <http://e/>\nMESSAGE\n", None),
    Hostile("no JSON-LD", "jsonld", b'{"@id": \n', "unreadable", "no JSON"),
    Hostile("half a character in JSON-LD", "jsonld", _document(p="\ud800"), "unreadable"),
    Hostile("a context of the Web", "jsonld", _document(**{"@context": "http://127.0.0.1:9/c"}), "unreadable", "nothing is fetched"),
    Hostile("a context that is a file", "jsonld", _document(**{"@context": ["file:///etc/passwd"]}), "unreadable", "nothing is fetched"),
    Hostile("a wrong type of time in JSON-LD", "jsonld", b'{"http://e/t": "soon"}\n', "unreadable", "neither an integer nor"),
    Hostile("more triples than there may be", "ndjson", _line(_many("Some", 600)), "limit", "more than 500 triples"),
    Hostile("more answers than there may be", "ndjson", _line(_many("Left", 25) + _many("Right", 25)), "limit", "more than"),
    Hostile("what the closure fails at", "ndjson", _line("[] :v 13 ."), "failed", "RecursionError: too deep"),
    Hostile("what a query fails at", "trig", _block("[] :hurt 17"), "failed", "the query of rule Hurt fails: ArithmeticError: it hurts"),
)
"""Those that are dead letters already."""

LATER: Final[Sequence[Hostile]] = (
    Hostile("triple terms, 16,500 deep", "ndjson", _line(f":a :p {_deep(16_500)} ."), "limit", "nest"),
    Hostile("triple terms, 30 deep", "ndjson", _line(f":a :p {_deep(30)} ."), "limit", "nest"),
    Hostile("brackets, 5,000 deep", "ndjson", _line(":a :p " + "[ :p " * 5000 + "]" * 5000 + " ."), "limit", "nest"),
    Hostile("lists, 3,000 deep", "ndjson", _line(":a :p " + "( " * 3000 + ")" * 3000 + " ."), "limit", "nest"),
    Hostile("JSON, 10,000 deep", "ndjson", b'{"time": $T, "graph": "", "more": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n", "limit", "nest"),
    Hostile("triple terms in TriG, 1,000 deep", "trig", _block(f":a :p {_deep(1000)}"), "limit", "nest"),
    Hostile("brackets in TriG, 1,000 deep", "trig", _block(":a :p " + "[ :p " * 1000 + "]" * 1000), "limit", "nest"),
    Hostile("triple terms in quads, 300 deep", "nquads", _quads(f"<http://e/a> <http://e/p> {_deep(300, '')}"), "limit", "nest"),
    Hostile("brackets in a message, 20,000 deep", "log", _message(":a :p " + "[ :p " * 20_000 + "]" * 20_000), "limit", "nest"),
    Hostile("a message of 600 kB", "log", _message(":a :p 1 .\n" * 60_000 + ":a :p 2"), "limit", "500,000"),
    Hostile("a message with a line of 600 kB", "log", _message(f':a :p "{"x" * 600_000}"'), "limit", "500,000"),
    Hostile("JSON-LD, 20,000 deep", "jsonld", b'{"@graph":' * 20_000 + b"1" + b"}" * 20_000 + b"\n", "limit", "nest"),
    Hostile("contexts, 9,000 deep", "jsonld", b'{"@context":' + b"[" * 9_000 + b"]" * 9_000 + b"}\n", "limit", "nest"),
    Hostile("a document of 600 kB", "jsonld", _document(p="x" * 600_000), "limit", "500,000"),
    Hostile("a line of a megabyte", "ndjson", _line(f':a :p "{"x" * 1_000_000}" .'), "limit", "500,000"),
    Hostile("a line of 17 MB", "ndjson", _line(f':a :p "{"x" * 17_000_000}" .'), "limit", "500,000"),
    Hostile("a TriG statement of 600 kB", "trig", _block(f':a :p "{"x" * 600_000}"'), "limit", "500,000"),
    Hostile("a quad of 17 MB", "nquads", _quads(f'<http://e/a> <http://e/p> "{"x" * 17_000_000}"'), "limit", "500,000"),
    Hostile("a row of 600 kB", "csv", b"$T,%s,Good\n" % (b"x" * 600_000), "limit", "500,000"),
    Hostile("a compressed line of 10 MB", "gzip", b"x" * 10_000_000 + b"\n", "limit", "500,000"),
    Hostile("a rejected row whose next line looks like a row", "csv", b'soon,"a\n1,evil,Good\n",Good\n', "unreadable"),
    Hostile("a row with too many cells, of several lines", "csv", b'$T,"a\nb",Good,"c\n1,evil,Good\n"\n', "unreadable"),
    Hostile("matches beyond all bounds", "ndjson", _line(_many("Wide", 15)), "limit", "rule Wide", "rule Wide", 15),
    *(
        Hostile(f"candidates, the {nth} hundred", "ndjson", _line(_many("Other", 100)), None)
        for nth in ("first", "second", "third", "fourth")
    ),
    Hostile("an anchor with four hundred candidates", "ndjson", _line(_many("Tried", 1)), "limit", "rule Tried", "rule Tried"),
    Hostile("a computed text beyond all bounds", "ndjson", _line(f':a :long "{"a" * 500}" .'), None),
    Hostile("more computed text than there may be", "ndjson", _line(_texts("text")), "limit", _MORE_TEXT),
    Hostile("text that a recursive rule lengthens", "ndjson", _line(":a :link :b . :b :link :a ."), "limit", _MORE_TEXT),
    Hostile("text that a rule of LARS lengthens", "ndjson", _line(":a :step :b . :b :step :a ."), "limit", _MORE_TEXT, *_AT["lars"]),
    Hostile("text of a window", "ndjson", _line(_texts("window")), "limit", _MORE_TEXT, *_AT["rspql"]),
    Hostile("text of intervals", "ndjson", _line(_texts("interval", key=":s") + " :s :lasts 1 ."), "limit", _MORE_TEXT, *_AT["epsparql"]),
    Hostile("text of each anchor", "ndjson", _line(_texts("join")), "limit", _MORE_TEXT, "rule Joined", 30),
    Hostile("triple terms of each anchor", "ndjson", _line(_texts("quote", 800)), "limit", _MORE_TEXT, "rule Quoted", 30),
)
"""Those that need the limits of records, matches and computed texts."""

OF_UNITS: Final[Sequence[Hostile]] = (
    Hostile(
        "a window with too many answers",
        "ndjson",
        _line(_many("WindowLeft", 20) + _many("WindowRight", 20)),
        reason="limit",
        error="more than 200 rows",
        input="rule Wider",
        file="u.rspql",
    ),
    Hostile(
        "a point with too many atoms",
        "trig",
        _block(_many("GridLeft", 30) + _many("GridRight", 30)),
        reason="limit",
        error="more than 500 triples",
        input="rule u.lars",
        file="u.lars",
    ),
    Hostile("the begins of intervals", "ndjson", _line(_many("Begun", 20)), None),
    Hostile(
        "the ends of too many intervals",
        "ndjson",
        _line(_many("Ended", 20)),
        reason="limit",
        error="more than 200 combinations",
        input="rule Many",
        file="u.epsparql",
    ),
)
"""Those that a unit of another language goes over its limits with; the others go on."""

ENABLED: Final = (*NOW, *LATER, *OF_UNITS)


@dataclass
class Expected:
    """Expected results of a folder: the good elements in order of time, and the letters as (reason, input, file, line, a part
    of the error, the text's beginning)."""

    good: list[str] = field(default_factory=list)
    letters: list[tuple[str, str, str, int, str, str]] = field(default_factory=list)

    def events(self) -> list[tuple[int, str, str]]:
        """The time, the rule or unit and the element of each output."""
        times = [(int(name), f"<x:g{name}>") for name in self.good]
        each = [(time + wait, label, name) for label, wait in (("Good", 0), ("Met", 0), ("Seen", 0)) for time, name in times]
        pairs = [(time, "Pair", name) for time, name in times[1:]]
        return sorted([*each, *pairs, *((time, "After", before) for (_, before), (time, _) in pairwise(times))])


def write(folder: Path, hostile: Sequence[Hostile] = ENABLED) -> Expected:
    """Writes the rules, the configurations `local.yaml` and `spark.yaml`, and the inputs."""
    expected = Expected()
    contents = {name: bytearray(_HEADS.get(name, b"")) for name in FILES}
    time = 0

    def good(form: str) -> None:
        nonlocal time
        time += 100
        contents[form] += _good(form, time)
        expected.good.append(str(time))

    for form in FILES:
        good(form)
    for each in hostile:
        time += 50
        line = contents[each.format].count(b"\n") + 1
        record = each.record.replace(b"$T", b"%d" % time)
        contents[each.format] += record
        if each.reason is not None:
            name, text = each.input or each.format, record.removesuffix(b"MESSAGE\n").decode(errors="replace")
            place = (each.file, 0) if each.input else (FILES[each.format], line)
            expected.letters += [(each.reason, name, *place, each.error, "" if each.input else text)] * each.letters
        time += 50
        good(each.format)
    for form, content in contents.items():
        (folder / FILES[form]).write_bytes(gzip.compress(content) if form == "gzip" else content)
    for name, program in {"r.dotr": RULES, **UNITS}.items():
        (folder / name).write_text(program)
    for out in ("local", "spark"):
        text = CONFIG.format(out=out, limits=json.dumps(LIMITS), units=", ".join(name for name in UNITS if name != "r.dlog")).replace(
            '{ "": "http://e/" }', '{ "": "http://e/", "x": "x:g" }'
        )
        (folder / f"{out}.yaml").write_text(text)
    return expected


def _good(form: str, time: int) -> bytes:
    match form:
        case "ndjson" | "gzip":
            return _line(f"<x:g{time}> a :Good .").replace(b"$T", b"%d" % time)
        case "log":
            return _message(f"<x:g{time}> a :Good").replace(b"$T", b"%d" % time)
        case "jsonld":
            return _document(**{"@id": f"x:g{time}", "@type": "http://e/Good"}).replace(b"$T", b"%d" % time)
        case "trig":
            return _block(f"<x:g{time}> a :Good").replace(b"$T", b"%d" % time)
        case "nquads":
            return _quads(f"<x:g{time}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/Good>").replace(b"$T", b"%d" % time)
        case _:
            return f"{time},{time},Good\n".encode()


def lines_of(path: Path) -> Iterator[str]:
    """The lines of an output, which is a file, or on Spark a folder of them."""
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        yield from file.read_text(encoding="utf-8").splitlines()


def check(folder: Path, out: str, expected: Expected) -> None:
    """Compares what a run has left with what is expected."""
    events = [json.loads(line) for line in lines_of(folder / out / "out.ndjson")]
    found = [(each["time"], each["rule"], each["attributes"].get("x")) for each in events]
    assert sorted(found) == expected.events()
    assert [time for time, _, _ in found] == sorted(time for time, _, _ in found)
    letters = [json.loads(line) for line in lines_of(folder / out / "dead.ndjson")]
    left = list(letters)
    for reason, name, file, line, error, text in expected.letters:
        like = [
            each
            for each in left
            if (each["reason"], each["input"], Path(each["file"]).name) == (reason, name, file)
            and (not line or each["line"] == line)
            and error in each.get("error", "")
            and _alike(text, _text(each))
            and (error != "500,000" or len(_text(each).encode()) <= (64 << 10) + 4)
        ]
        assert like, (reason, name, file, line, error, text[:80], [{**each, "text": each["text"][:80]} for each in letters])
        left.remove(like[0])
    assert left == []
    assert all(each.get("error") for each in letters)


def _text(letter: dict[str, str]) -> str:
    """The text of a dead letter, decoded where it is of bytes."""
    return base64.b64decode(letter["text"]).decode(errors="replace") if letter.get("encoding") == "base64" else letter["text"]


def _alike(record: str, text: str) -> bool:
    """True if the text of a dead letter begins a record: that of a statement of TriG may lack what stands between its parts."""
    return not record or " ".join(record[:200].split())[:150] == " ".join(text[:200].split())[:150]


FAR_RULES: Final = """PREFIX : <http://e/>
rule Tick define Tick = [ :t :n 1 ] from every 1 s as T
rule Late define Late = [ :l :of ?x ] from A = [ SELECT ?x { :s :v ?x } ] delayed by 1 h with Late.?x = A.?x
rule Then define Then = [ :p :of ?y ] from A = [ SELECT ?x { :s :v ?x } ]
and last B = [ SELECT ?y { :s :v ?y } ] within 1 d from A with Then.?y = B.?y
"""
FAR_QUERIES: Final = """PREFIX : <http://e/>
REGISTER RSTREAM Counted AS SELECT (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <far> [RANGE 1h STEP 1us REPORT ON WINDOW CLOSE] WHERE { WINDOW <w> { ?x :v ?v } }
REGISTER RSTREAM Shown AS SELECT ?v
FROM NAMED WINDOW <w> ON <far> [RANGE 10s STEP 5s REPORT ON WINDOW CLOSE] WHERE { WINDOW <w> { ?x :v ?v } }
REGISTER DSTREAM Left AS SELECT ?v FROM NAMED WINDOW <w> ON <Late> [RANGE 10s STEP 1us] WHERE { WINDOW <w> { ?x :of ?v } }
"""
FAR_FILE: Final = """PREFIX : <http://e/>
RESOLUTION 1 us .
Seen(?v) :- :v(:s, ?v) IN [1 h] .
REPORT NEW Seen(?v) .
REPORT ENDED Seen(?v) AS Gone .
REPORT ALL Seen(?v) AS Still .
"""
FAR_PAIRS: Final = """PREFIX : <http://e/>
REGISTER QUERY Pairs AS SELECT ?a ?b WHERE { ?x :v ?a } SEQ { ?x :v ?b } WITHIN 1 d
"""
FAR_CONFIG: Final = """name: far
prefixes: {{ "": "http://e/" }}
rules: [far.dotr, far.rspql, far.lars, far.epsparql]
input: [{{ name: far, format: ndjson, path: far.ndjson }}]
output: [{{ path: {out}/out.ndjson }}]
dead_letter: {out}/dead.ndjson
spark: {{ master: "local[2]", checkpoint: {out}/checkpoint, batch: 2 }}
"""
FAR_TIMES: Final = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00.000003Z",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
)
"""Times of elements, each far ahead of the one before it but for the second; the last one is the end of all times."""
FAR_GAPS: Final = sorted(
    (unit, time)
    for unit, times in {
        "Tick": FAR_TIMES[2:],
        "Counted": (*FAR_TIMES[2:], "10000-01-01T00:59:59.999999Z"),
        "far.lars": FAR_TIMES[2:],
    }.items()
    for time in times
)
"""The unit and the later time of each gap that is skipped."""


def write_far(folder: Path) -> None:
    """Writes the configurations `far-local.yaml` and `far-spark.yaml` of a program in all languages, and its input: elements that are far
    ahead."""
    for name, text in (("dotr", FAR_RULES), ("rspql", FAR_QUERIES), ("lars", FAR_FILE), ("epsparql", FAR_PAIRS)):
        (folder / f"far.{name}").write_text(text)
    lines = [json.dumps({"time": time, "graph": f":s :v {number} ."}) + "\n" for number, time in enumerate(FAR_TIMES)]
    (folder / "far.ndjson").write_text("".join(lines))
    for out in ("local", "spark"):
        (folder / f"far-{out}.yaml").write_text(FAR_CONFIG.format(out=f"far-{out}"))


def check_far(folder: Path, out: str) -> list[str]:
    """The output of a run, after a check of its dead letters."""
    letters = [json.loads(line) for line in lines_of(folder / f"far-{out}" / "dead.ndjson")]
    assert sorted((each["text"], each["time"]) for each in letters) == FAR_GAPS
    assert {each["reason"] for each in letters} == {"gap"}
    return list(lines_of(folder / f"far-{out}" / "out.ndjson"))
