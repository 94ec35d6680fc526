"""Data classes of `dotr.model`: those of the standard library, with methods compiled at first use."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import marshal
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

import dotr
from dotr import model
from dotr.model import dataclass, keep_methods

pytestmark = pytest.mark.core

Item = TypeVar("Item")


def declared(decorator: Any) -> dict[str, type[Any]]:
    """Data classes of all forms in use, made by a decorator."""

    @decorator
    class Plain:
        name: str
        sizes: list[int] = dataclasses.field(default_factory=list)

    @decorator(frozen=True, slots=True)
    class Value:
        name: str
        size: int = 1
        note: str = dataclasses.field(default="", compare=False, repr=False)

    @decorator(frozen=True, slots=True, order=True)
    class Ordered:
        size: int
        name: str = "z"

    @decorator(frozen=True)
    class Base(Generic[Item]):
        item: Item

        def __post_init__(self) -> None:
            if self.item is None:
                raise ValueError("no item")

    @decorator(frozen=True)
    class Derived(Base[Any]):
        item: Any = 5
        more: tuple[int, ...] = ()

    @decorator(slots=True)
    class Counting:
        start: int
        seen: int = dataclasses.field(default=7, init=False)
        named: str = dataclasses.field(default="n", kw_only=True)

    @decorator(frozen=True, eq=False)
    class Identity:
        name: str

    @decorator(frozen=True, slots=True, repr=False)
    class Written:
        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

        def __hash__(self) -> int:
            return 11

    @decorator(frozen=True, slots=True)
    class Compared:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and other.name[0] == self.name[0]

    @decorator(frozen=True)
    class Empty:
        pass

    class Child(Value):
        pass

    made: list[type[Any]] = [Plain, Value, Ordered, Base, Derived, Counting, Identity, Written, Compared, Empty, Child]
    return {each.__name__: each for each in made}


LAZY = declared(dataclass)
STANDARD = declared(dataclasses.dataclass)


def result(action: Callable[[], object]) -> object:
    """The value of an action, or the type and text of its error."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error)


BEHAVIOUR: dict[str, list[Callable[[Any], object]]] = {
    "Plain": [
        lambda made: made("a"),
        lambda made: made("a", [1]),
        lambda made: made("a").sizes is made("a").sizes,
        lambda made: made(),
        lambda made: made("a", siez=1),
        lambda made: made("a") == made("a", []),
        lambda made: hash(made("a")),
    ],
    "Value": [
        lambda made: made("a"),
        lambda made: made(size=2, name="b"),
        lambda made: made("a", 1, "x") == made("a"),
        lambda made: hash(made("a")) == hash(("a", 1)),
        lambda made: {made("a"): 1}[made("a")],
        lambda made: made("a") == ("a", 1),
        lambda made: setattr(made("a"), "name", "b"),
        lambda made: delattr(made("a"), "size"),
        lambda made: made("a", 1, "x", 2),
        lambda made: made("a") < made("b"),
        lambda made: dataclasses.replace(made("a"), size=3),
        lambda made: dataclasses.replace(made("a"), sise=3),
        lambda made: [f.name for f in dataclasses.fields(made)],
        lambda made: dataclasses.asdict(made("a")),
        lambda made: copy.copy(made("a", 4, "x")).note,
        lambda made: copy.deepcopy(made("a", 4, "x")),
        lambda made: made.__match_args__,
        lambda made: made.__slots__,
        lambda made: str(inspect.signature(made)),
        lambda made: made.__init__.__qualname__,
        lambda made: made("a").__dict__,
    ],
    "Ordered": [
        lambda made: sorted([made(2), made(1), made(2, "a")]),
        lambda made: made(1) >= made(1),
        lambda made: made(1) < 1,
    ],
    "Base": [
        lambda made: made(1),
        lambda made: made(None),
        lambda made: made(1) == made(True),
    ],
    "Derived": [
        lambda made: made(),
        lambda made: made(1, (2,)),
        lambda made: made(None),
        lambda made: made(1) == made(1),
        lambda made: setattr(made(), "other", 1),
        lambda made: delattr(made(), "item"),
        lambda made: setattr(type("Child", (made,), {})(), "own", 1),
    ],
    "Counting": [
        lambda made: made(1),
        lambda made: made(1).seen,
        lambda made: made(1, named="m"),
        lambda made: made(1, 2),
        lambda made: made(1) == made(1),
        lambda made: hash(made(1)),
        lambda made: setattr(made(1), "other", 2),
    ],
    "Identity": [
        lambda made: made("a") == made("a"),
        lambda made: made("a"),
        lambda made: setattr(made("a"), "name", "b"),
        lambda made: len({made("a"), made("a")}),
    ],
    "Written": [
        lambda made: made("a"),
        lambda made: hash(made("a")),
        lambda made: made("a") == made("a"),
    ],
    "Compared": [
        lambda made: made("ab") == made("ac"),
        lambda made: hash(made("ab")) == hash(("ab",)),
    ],
    "Empty": [
        lambda made: made(),
        lambda made: made(1),
        lambda made: made() == made(),
        lambda made: hash(made()),
        lambda made: setattr(made(), "a", 1),
    ],
    "Child": [
        lambda made: made("a"),
        lambda made: made("a") == made("a"),
        lambda made: setattr(made("a"), "name", "b"),
        lambda made: made.__init__.__qualname__,
    ],
}


@pytest.mark.parametrize(("name", "action"), [(name, action) for name, actions in BEHAVIOUR.items() for action in actions])
def test_behaves_as_that_of_the_standard_library(name: str, action: Callable[[Any], object]) -> None:
    first, later, standard = (result(lambda made=made: action(made)) for made in (declared(dataclass)[name], LAZY[name], STANDARD[name]))  # type: ignore[misc]
    assert repr(first) == repr(later) == repr(standard)


def test_a_method_is_compiled_once_and_bound_to_the_class_that_declares_it() -> None:
    made = declared(dataclass)
    child, value = made["Child"], made["Value"]
    early = child.__init__
    assert child("a") == child("a")
    assert inspect.isfunction(vars(value)["__init__"])
    assert "__init__" not in vars(child)
    assert child.__init__ is early


def used() -> list[str]:
    """Texts of what the classes of all forms do, with the methods of new classes."""
    made = declared(dataclass)
    return [repr(result(lambda action=action, name=name: action(made[name]))) for name, actions in BEHAVIOUR.items() for action in actions]  # type: ignore[misc]


@pytest.fixture
def kept_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new file of kept methods."""
    monkeypatch.setattr(model, "_KEPT", str(tmp_path / "methods"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    model._kept.cache_clear()
    yield tmp_path / "methods"
    model._kept.cache_clear()


def test_kept_methods_are_equal_and_not_compiled_again(kept_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = used()
    keep_methods()
    model._kept.cache_clear()
    made = model._made
    compiled: list[str] = []
    monkeypatch.setattr(model, "_made", lambda owner, name, *rest: compiled.append(name) or made(owner, name, *rest))  # type: ignore[func-returns-value]
    assert used() == first
    assert set(compiled) <= {"__repr__"}  # the standard library puts a function around it
    assert [path.name for path in kept_file.parent.iterdir()] == ["methods"]


def test_kept_methods_have_the_defaults_of_their_own_class(kept_file: Path) -> None:
    @dataclass(frozen=True)
    class First:
        a: object = None
        b: object = None

    @dataclass(frozen=True)
    class Second:
        a: object = None
        b: object = 5

    assert (First().b, Second().b, Second(b=6).b) == (None, 5, 6)


@pytest.mark.parametrize("content", [b"", b"no marshal", marshal.dumps(7), marshal.dumps({"version": "2.7"})], ids=repr)
def test_a_file_of_another_version_or_none_is_not_read(kept_file: Path, content: bytes) -> None:
    kept_file.write_bytes(content)
    assert used() == [repr(result(lambda: action(STANDARD[name]))) for name, actions in BEHAVIOUR.items() for action in actions]  # noqa: B023
    keep_methods()
    assert len(marshal.loads(kept_file.read_bytes())) > 10


def test_no_file_is_written_where_modules_are_not_compiled_to_files(kept_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    used()
    keep_methods()
    assert not kept_file.exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(model, "_KEPT", str(kept_file / "no" / "folder"))
    keep_methods()
    model._kept.cache_clear()
    monkeypatch.setattr(model, "_KEPT", "")
    used()
    keep_methods()
    assert not kept_file.exists()


def test_no_method_is_compiled_by_the_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    original = dataclasses.dataclass
    calls: list[dict[str, object]] = []

    def recorded(**options: Any) -> object:
        calls.append(options)
        return original(**options)

    monkeypatch.setattr(dataclasses, "dataclass", recorded)
    declared(dataclass)
    assert calls
    assert not [options for options in calls if {options[key] for key in ("init", "repr", "eq")} != {False}]


def test_every_data_class_of_dotr_is_one_of_these() -> None:
    """Data classes of the standard library compile six methods each, when a module is imported."""
    folder = Path(dotr.__file__).parent
    standard = re.compile(r"^\s*(?:import dataclasses|from dataclasses import .*\bdataclass\b)", re.MULTILINE)
    files = [path for path in folder.rglob("*.py") if path != folder / "model/__init__.py"]
    assert [str(path) for path in files if standard.search(path.read_text(encoding="utf-8"))] == []
