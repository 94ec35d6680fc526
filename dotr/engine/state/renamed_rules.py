"""Renamed rules: rules with the meaning of a rule of an older program, under another name.

Idea: a schema has only digests of the older rules. So each new rule is digested under the name of
each removed rule, once with its event renamed likewise and once without, and the digests are
compared.
Example: `rule Jam define Jam = …` is now `rule Wave define Wave = …`. Digested under the name Jam,
with its event as Jam, the rule Wave has the digest of the old rule, so it means what Jam meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dotr.engine.program import CompiledProgram
from dotr.engine.state.schema import StateSchema, digest_of, plain_data, state_schema
from dotr.model.rules import Rule


def renamed_rules(program: CompiledProgram, before: StateSchema) -> dict[str, str]:
    """The older name of each rule that has only been renamed.

    Args:
        program: the program as it is now.
        before: the schema of the older program's state.
    """
    rules = {rule.name: rule for rule in program.rules.rules}
    older = {rule.name: rule.digest for rule in before.rules}
    found: dict[str, str] = {}
    while True:
        pairs = [(name, old) for name in sorted(rules.keys() - older.keys() - found.keys()) for old in sorted(older.keys() - rules.keys())]
        added = [(n, old) for n, old in pairs if old not in found.values() and older[old] in _digests(rules[n], old, found)]
        if not added:
            break
        found[added[0][0]] = added[0][1]
    schema = state_schema(program, knowledge=before.knowledge)
    reads = {rule.name: rule.reads for rule in schema.rules}
    units = {unit.name: unit.digest for unit in schema.units}

    def written(name: str) -> str:
        """The digest of a rule under its older name, or of a unit; empty where the older program
        has no such rule or unit."""
        if name in units:
            return units[name]
        old = found.get(name, name)
        return older[old] if old in older and older[old] in _digests(rules[name], old, found) else ""

    meanings = before.meanings
    return {name: old for name, old in found.items() if sorted(map(written, reads[name])) == list(meanings[old][1:])}


def _digests(rule: Rule, name: str, renamed: Mapping[str, str]) -> tuple[str, str]:
    """The digest of a rule under another name: its event renamed with it, and not."""
    names = {**renamed, rule.name: name}
    return digest_of([_renamed(plain_data(rule), names)]), digest_of([_renamed(plain_data(replace(rule, name=name)), renamed)])


def _renamed(data: object, names: Mapping[str, str]) -> object:
    """Plain data with other names in place of labels and names of rules."""
    match data:
        case str():
            return names.get(data, data)
        case list():
            return [_renamed(each, names) for each in data]
        case _:
            return data
