"""Codes of LARS files (L)."""

from __future__ import annotations

from dotr.errors.catalogue.entries import ErrorCode, GoldenFile, InFiles


def _entry(code: str, title: str, meaning: str, remedy: str) -> ErrorCode:
    return ErrorCode(code, title, meaning, remedy, GoldenFile(f"{code}.lars"))


_CONFIGURATION = (
    "c.yaml",
    "name: rooms\nrules: [rooms.lars]\ninput: [{ name: doors, format: ndjson, path: doors.ndjson }]\n"
    "output: [{ format: ndjson, path: out.ndjson }]\n",
)
_JOINED = (
    "rooms.lars",
    "PREFIX : <http://example.org/>\nPair(?x, ?y) :- :open(?x, ?d) IN [5 s], :open(?y, ?e) IN [5 s] .\nREPORT Pair(?x, ?y) .\n",
)

LARS: tuple[ErrorCode, ...] = (
    _entry("L101", "Not a LARS file", "The text does not follow the grammar of `.lars` files here.", "Write what is expected."),
    _entry(
        "L102",
        "A word that is no label",
        "Relations, labels of events and of reports are words that are no keyword of LARS and no reserved word of the rule "
        "language, in any case of letters.",
        "Choose another name.",
    ),
    _entry(
        "L103",
        "Not a length of time",
        "A length is written `30 s`, `1 h 30 min` or `PT5M`, with its unit; only 0 needs none. Months and years have no fixed length.",
        "Write it in one of these forms; a number of triples is `[LAST 5]`.",
    ),
    _entry("L104", "A statement twice", "RESOLUTION and STREAM apply to the whole file, and are written once.", "Leave one of them out."),
    _entry("L105", "Not a number of triples", "LAST is followed by a whole number.", "Write one."),
    _entry(
        "L201",
        "ALWAYS, AT or SINCE without a window",
        "Its state would be unbounded.",
        "Write a window: `ALWAYS IN [5 s]`.",
    ),
    _entry(
        "L202",
        "A window without a point",
        "No time lies between the bounds, or no multiple of RESOLUTION does: the literal could never hold.",
        "Write other bounds, or a finer RESOLUTION.",
    ),
    _entry("L203", "RESOLUTION of no length", "Points of time follow each other by the resolution.", "Write a length: `RESOLUTION 1 s`."),
    _entry("L204", "LAST 0", "A window of the last 0 triples is always empty.", "Write a number above 0."),
    _entry(
        "L205",
        "A tuple window over conclusions",
        "`[LAST n]` counts triples of the stream. Conclusions are derived at each point, and are in no order.",
        "REPORT the atom, and count its EVENT in a second file; or use a window of time.",
    ),
    _entry(
        "L206",
        "LAST over an EVENT",
        "`[LAST n]` alone counts the triples of the stream, among which there is no event.",
        "Write MATCHING or PER.",
    ),
    _entry(
        "L207",
        "PER a variable of another atom",
        "PER counts for each value of variables of its own atom.",
        "Name a variable of the atom, or write MATCHING.",
    ),
    _entry(
        "L208",
        "SINCE in a tuple window",
        "SINCE refers to all points since one; a tuple window has no atoms at most points.",
        "Write a window of time.",
    ),
    _entry(
        "L209",
        "Recursion through NOT",
        "The atom under NOT would depend on conclusions from it. Windows, also with lower bounds, make no difference.",
        "Break the cycle: derive one of the two atoms from others, or REPORT it and read its EVENT in a second file.",
    ),
    _entry(
        "L210",
        "An unbound variable",
        "A variable of a head, of FILTER, of BIND or in front of SINCE has no value: literals under NOT bind none, SINCE "
        "binds by its second atom.",
        "Add a literal with the variable, or correct its name.",
    ),
    _entry("L211", "BIND of a bound variable", "The variable has a value already.", "Compare with FILTER, or choose another name."),
    _entry(
        "L212",
        "A head at a time that the body does not bind",
        "The point of a conclusion must be a time that `AT ?t` binds in a literal of the body.",
        "Write `AT ?t IN [5 s]` after an atom of the body.",
    ),
    _entry(
        "L213",
        "A condition inside NOT",
        "NOT applies to atoms, each with or without a window.",
        "Derive the atom with the condition by a rule of its own, and write NOT of its head.",
    ),
    _entry(
        "L214",
        "Not a condition of LARS",
        "EXISTS, attributes of labels (`M.?v`), `time(…)`, AGGREGATE and SKOLEM have no meaning in a LARS rule.",
        "Write atoms and NOT; read attributes by `EVENT L(?a)` and times by `AT ?t`; aggregate in a rule that reads the label of a REPORT.",
    ),
    _entry(
        "L215",
        "Not a head",
        "A head is an atom of a given property or class, or of a relation of the file. It has no variable as property, and is neither an "
        "EVENT nor declared by BACKGROUND.",
        "Write one rule for each property, or REPORT the atom to make events.",
    ),
    _entry("L216", "A rule without head or body", "A rule concludes its head from its body.", "Write both; a fact has no `:-`."),
    _entry(
        "L217", "Not a fact", "A fact holds at every point for the terms that it names.", "Write a rule if there is a variable or a time."
    ),
    _entry(
        "L218",
        "A relation with two numbers of arguments",
        "Atoms of one relation have equally many arguments.",
        "Correct one of them, or choose two names.",
    ),
    _entry(
        "L219",
        "A relation without a rule or fact",
        "No rule and no fact of the file has the relation.",
        "Correct the name; write EVENT before the label of another unit, a prefix before a class or property.",
    ),
    _entry("L220", "An attribute twice", "An event has one value of an attribute.", "Compare two variables with FILTER."),
    _entry(
        "L221",
        "REPORT of an atom without a rule",
        "No head of a rule matches the atom, so there would be no event.",
        "Write a rule for it, or correct the atom.",
    ),
    _entry(
        "L222",
        "REPORT without a label",
        "Events of a triple atom, and those of ENDED, have no name by themselves.",
        "Write AS and a label.",
    ),
    _entry(
        "L223",
        "A label twice",
        "Two REPORTs have one label, or a label is the name of another relation of the file, so their events cannot be distinguished.",
        "Write AS and another label.",
    ),
    _entry("L401", "A file without REPORT", "The file makes no event.", "Write REPORT and an atom."),
    _entry(
        "L402",
        "REPORT ALL",
        "All rows are events at every point between the first and the last instant, also at points without an instant.",
        "Leave ALL out: NEW and ENDED report the changes only.",
    ),
    _entry(
        "L403",
        "A window over conclusions",
        "Conclusions are not stored from point to point: a window over them contains only conclusions at earlier points, of heads with AT.",
        "Write the head with AT, or REPORT it and read the EVENT in a second file.",
    ),
    ErrorCode(
        "L404",
        "A LARS file that cannot be partitioned",
        "A rule has atoms without a common variable, so the whole file is evaluated on one core. `dotr explain` shows the keys.",
        "Use one variable in all atoms of each rule; or accept one core, with `# dotr: allow L404 (…)` above the first statement.",
        InFiles((_CONFIGURATION, _JOINED, ("doors.ndjson", ""))),
    ),
    _entry(
        "L405",
        "A difference of times as a number",
        "The difference of two times is a number where times are integers, and a duration where they are date-times. A duration is not "
        "compared with a number, and no number is added to a date-time: the condition is an error. So it is with an "
        "attribute of an event that is assigned such a difference. Where the configuration has `time.unit`, times are integers, and there "
        "is no warning.",
        "Compare the seconds: `FILTER(<urn:dotr:function:seconds>(?u - ?t) > 10)`. It is a warning.",
    ),
    _entry(
        "L436",
        "A window shorter than the resolution",
        "The file is evaluated at points, which RESOLUTION sets apart. A window that is shorter reaches no other point than its own.",
        "Write a finer RESOLUTION, a longer window, or [0, 0] if the point itself is meant. It is a warning.",
    ),
)
