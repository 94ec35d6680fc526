"""Printer of generated code: a tree as Python text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from dotr.evaluation.codegen.tree import (
    AddWork,
    Assign,
    Block,
    Emit,
    ForEach,
    Fork,
    GeneratedFunction,
    IfElse,
    Outlined,
    Require,
    Return,
    SkipIf,
    TableLookUp,
)

INDENT: Final = "    "


def printed_factory(function: GeneratedFunction, parameters: Iterable[str]) -> str:
    """Prints a function inside a factory of its parameters: functions of one text share one
    compilation.

    >>> loop = ForEach("x", "b0.get(k1, ())", [SkipIf("x != s"), Emit("push", "(s, k1, x)")])
    >>> print(printed_factory(GeneratedFunction("delta_rule", "s, push", [loop]), ["b0", "k1"]))
    def make(b0, k1):
        def delta_rule(s, push):
            for x in b0.get(k1, ()):
                if x != s: continue
                push((s, k1, x))
        return delta_rule
    <BLANKLINE>
    """
    lines = [f"def make({', '.join(parameters)}):"]
    _print_function(function, INDENT, lines)
    lines.append(f"{INDENT}return {function.name}\n")
    return "\n".join(lines)


def printed(function: GeneratedFunction) -> str:
    """Prints a function.

    >>> print(printed(GeneratedFunction("make", "row", [Assign("c0", "row[0]"), Return("((c0, c0, c0),), 0")])))
    def make(row):
        c0 = row[0]
        return ((c0, c0, c0),), 0
    <BLANKLINE>
    """
    lines: list[str] = []
    _print_function(function, "", lines)
    lines.append("")
    return "\n".join(lines)


def printed_lines(block: Block, pad: str, leave: str) -> list[str]:
    """The lines of a block, behind `pad`; `leave` is the statement after a failed guard, and if it
    is empty, the statements that follow a guard are indented.

    >>> printed_lines([SkipIf("x != k1"), Emit("append", "x")], "    ", "continue")
    ['    if x != k1: continue', '    append(x)']
    """
    lines: list[str] = []
    if block:
        _print(block, pad, leave, lines)
    return lines


def _print_function(function: GeneratedFunction, pad: str, lines: list[str]) -> None:
    lines.append(f"{pad}def {function.name}({function.arguments}):")
    pad += INDENT
    _print(function.body, pad, function.leave, lines)
    if function.last:
        _print(function.last, pad, function.leave, lines)
    end = function.last or function.body
    if function.leave != "return" and not (end and isinstance(end[-1], Return)):
        lines.append(pad + function.leave)


def _print(block: Block, pad: str, leave: str, lines: list[str]) -> None:
    """Appends the lines of a block.

    `leave` is the statement after a failed guard; if it is empty, the statements that follow the
    guard are indented:

        Fork([[SkipIf("x != k1"), Emit("append", "x")], [Emit("extend", "y")]])

        if not (x != k1):
            append(x)
        extend(y)
    """
    for each in block:  # the most frequent kinds first
        if isinstance(each, ForEach):
            lines.append(f"{pad}for {each.targets} in {each.items}:")
            _print(each.body, pad + INDENT, "continue", lines)
        elif isinstance(each, Assign):
            lines.append(f"{pad}{each.target} = {each.value}")
        elif isinstance(each, SkipIf):
            if leave:
                lines.append(f"{pad}if {each.condition}: {leave}")
            else:
                lines.append(f"{pad}if not ({each.condition}):")
                pad += INDENT
        elif isinstance(each, Emit):
            lines.append(f"{pad}{each.sink}({each.item})")
        elif isinstance(each, TableLookUp):
            lines.append(f"{pad}{each.name} = {each.value}")
            if each.required:
                lines.append(f"{pad}if {each.name} is None: {leave}")
        elif isinstance(each, IfElse):
            word = "if"
            for condition, body in each.cases:
                lines.append(f"{pad}{word} {condition}:")
                _print(body, pad + INDENT, leave, lines)
                word = "elif"
            if each.otherwise:
                lines.append(f"{pad}else:")
                _print(each.otherwise, pad + INDENT, leave, lines)
        elif isinstance(each, Require):
            if leave:
                lines.append(f"{pad}if not {each.condition}: {leave}")
            else:
                lines.append(f"{pad}if {each.condition}:")
                pad += INDENT
        elif isinstance(each, Return):
            lines.append(f"{pad}return {each.value}" if each.value else f"{pad}return")
        elif isinstance(each, AddWork):
            lines.append(f"{pad}work += {each.amount}")
            lines.append(f"{pad}if work > most: most = passed(work, rows)")
        elif isinstance(each, Fork):
            for branch in each.branches:
                _print(branch, pad, "", lines)
        elif isinstance(each, Outlined):
            lines.append(f"{pad}def {each.name}():")
            if each.assigned:
                lines.append(f"{pad}{INDENT}nonlocal {each.assigned}")
            _print(each.body, pad + INDENT, "return", lines)
            lines.append(f"{pad}{each.name}()")
        else:
            assert_never(each)
    if lines[-1][-1] == ":":
        lines.append(f"{pad}pass")
