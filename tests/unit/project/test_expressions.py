"""Every regular expression takes time in proportion to the text, whatever the text is: job authors write it.

The expressions are those of all modules, so that a new one is tested as soon as it is there. Each is tried on texts
made for it: what it repeats, repeated up to 65,536 characters, with an end that lets it fail.
"""

from __future__ import annotations

import importlib
import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from re import _constants as kinds
from re import _parser as parser
from typing import Any, Final

import pytest

PROJECT: Final = Path(__file__).parents[3]
ROOTS: Final = ("core", "clients", "stores", "realizers", "pipeline", "standalone")
LENGTH: Final = 1 << 16
STEPS: Final = 1_500
"""Of the plainest expression per character: what an expression may take; that of passwords in
URLs took 3,000 and one of quadratic time takes 30,000."""

LENGTHS: Final = (2048, 8192, LENGTH)
SUSPICIOUS: Final = 12
"""Of such steps for a short text: from so many on the long one is tried. Quadratic time takes 1,000."""

METHODS: Final = ("fullmatch", "search")
"""What is tried where everything may be called: a search begins anew everywhere, as a substitution does."""
ENDS: Final = ("", "\0", "\n", "@", "!", " ")
_CATEGORIES: Final = {
    kinds.CATEGORY_DIGIT: "1",
    kinds.CATEGORY_SPACE: " ",
    kinds.CATEGORY_WORD: "a",
    kinds.CATEGORY_NOT_DIGIT: "x",
    kinds.CATEGORY_NOT_SPACE: "x",
    kinds.CATEGORY_NOT_WORD: "-",
}


def module_names() -> list[str]:
    """Return the names of all modules of the six roots that have expressions."""
    files = (path for root in ROOTS for path in sorted((PROJECT / root).rglob("*.py")) if path.name != "__main__.py")
    with_expressions = (path for path in files if re.search(r"\bre\.compile\(", path.read_text()))
    return [".".join(path.relative_to(PROJECT).with_suffix("").parts[1:]) for path in with_expressions]


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    """Yield the expressions in a value of a module, also within collections."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        yield from patterns_in(tuple(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(getattr(value, "__self__", None), re.Pattern):  # a method that was taken from one
        yield value.__self__  # type: ignore[attr-defined]


def expressions(module_name: str) -> Iterator[tuple[str, re.Pattern[Any], tuple[str, ...]]]:
    """Yield every expression of a module with its name, and the methods that are called."""
    module = importlib.import_module(module_name)
    text = Path(str(module.__file__)).read_text()
    for name, value in list(vars(module).items()):
        for number, pattern in enumerate(dict.fromkeys(patterns_in(value))):
            yield f"{name}[{number}]", pattern, methods_of(name, text)


def methods_of(name: str, text: str) -> tuple[str, ...]:
    """Return how a module calls an expression; every way where it is handed on, or others may call it."""
    uses = re.findall(rf"(?<![\w.\"]){name}\b(?!\"| *(?:: Final|=[^=]))(?:\[[^\]]*\])?(?:\.(\w+))?", text)
    if not name.startswith("_") or not uses or "" in uses:
        return METHODS
    return tuple(sorted({each if each in ("fullmatch", "match") else "search" for each in uses if each != "pattern"}))


def witness(parsed: Iterable[tuple[Any, Any]], least: int = 1) -> str:
    """Return a text that fits a parsed expression, nearly: what is repeated comes at least so often."""
    return "".join(_witness(kind, value, least) for kind, value in parsed)


def _witness(kind: Any, value: Any, least: int) -> str:
    if kind is kinds.LITERAL:
        return chr(value)
    if kind is kinds.NOT_LITERAL:
        return "y" if value == ord("x") else "x"
    if kind is kinds.ANY:
        return "x"
    if kind is kinds.IN:
        return next(iter(_members(value)), "x")
    if kind is kinds.BRANCH:
        return witness(value[1][0], least)
    if kind is kinds.SUBPATTERN:
        return witness(value[-1], least)
    if kind is kinds.ATOMIC_GROUP:
        return witness(value, least)
    if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
        times: int = max(value[0], min(least, value[1]))
        return witness(value[2], least) * times
    return ""


def _members(value: Any) -> Iterator[str]:
    if value and value[0][0] is kinds.NEGATE:
        excluded = set("".join(_members(value[1:])))
        yield from (each for each in "xa1:/ .-" if each not in excluded)
        return
    for kind, member in value:
        if kind is kinds.LITERAL:
            yield chr(member)
        elif kind is kinds.RANGE:
            yield chr(member[0])
        elif kind is kinds.CATEGORY:
            yield _CATEGORIES.get(member, "x")


def parts(parsed: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """Yield what an expression consists of: characters, what it repeats, and every beginning of it."""
    items = list(parsed)
    for number, (kind, value) in enumerate(items):
        yield witness(items[: number + 1])
        yield witness(items[: number + 1], least=0)
        if kind is kinds.IN:
            yield from itertools.islice(_members(value), 6)
        elif kind is kinds.BRANCH:
            for branch in value[1]:
                yield from parts(branch)
        elif kind is kinds.SUBPATTERN:
            yield from parts(value[-1])
        elif kind is kinds.ATOMIC_GROUP:
            yield from parts(value)
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            yield from parts(value[1])
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
            yield from parts(value[2])


def attacks(pattern: re.Pattern[Any], *, most: int) -> Iterator[tuple[str, str, str]]:
    """Yield beginning, what is repeated, and end of the texts that an expression is tried on.

    Args:
        pattern: The expression.
        most: Parts of it that are repeated one by one; a third of them two by two.
    """
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = parser.parse(text, pattern.flags & (re.VERBOSE | re.DOTALL))
    found = list(dict.fromkeys(each[:40] for each in parts(parsed) if each))
    whole = witness(parsed)
    # A beginning of the expression before what one of its parts repeats, and the parts two by two.
    begins = list(dict.fromkeys(["", *itertools.islice((each for each in found if len(each) > 1), most // 6)]))
    pairs = (a + b for a, b in itertools.product(found[: most // 3], found[: most // 3]))
    pumps = list(dict.fromkeys([*found[:most], whole[:-1], *pairs]))
    for begin, pump in itertools.product(begins, [each for each in pumps if each]):
        for end in ENDS[:2] if begin else ENDS[: most // 3]:
            yield begin, pump, end


def seconds(pattern: re.Pattern[Any], method: str, text: str) -> float:
    """Return how long one call takes, over all that is found where it is one that goes on."""
    given: Any = text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")
    began = time.process_time_ns()
    if method == "search":
        for _ in pattern.finditer(given):
            pass
    else:
        getattr(pattern, method)(given)
    return (time.process_time_ns() - began) / 1e9


PLAIN: Final = re.compile("[a-y]*z")


def steps(pattern: re.Pattern[Any], method: str, text: str) -> float:
    """Return what a call takes, in what the plainest expression takes for one as long, on this machine now."""
    own = min(seconds(pattern, method, text) for _ in range(2))
    return own / min(seconds(PLAIN, "match", "x" * len(text)) for _ in range(3))


def is_slow(pattern: re.Pattern[Any], method: str, attack: tuple[str, str, str]) -> bool:
    """Tell whether an expression takes too long for a text; on a busy machine it is looked at again."""
    begin, pump, end = attack
    # What takes exponential time is found before it takes years.
    for length in (12, 20, 28):
        if seconds(pattern, method, begin + pump[:8] * length + end) > 1.0:
            return True
    texts = [begin + pump * (length // len(pump)) + end for length in LENGTHS]
    if steps(pattern, method, texts[0]) < SUSPICIOUS:
        return False
    return any(all(steps(pattern, method, text) > STEPS for _ in range(3)) for text in texts)


def test_expressions_of_all_roots_are_found() -> None:
    assert len(module_names()) > 40
    assert {name.split(".")[1] for name in module_names()} >= {"core", "clients", "stores", "pipeline", "standalone"}


def slow_expressions(module_name: str, most: int) -> list[tuple[str, str, tuple[str, str, str]]]:
    """Return the expressions of a module that take too long, with how they are called and on what."""
    return [
        (name, method, attack)
        for name, pattern, methods in expressions(module_name)
        for method in methods
        if (attack := next((each for each in attacks(pattern, most=most) if is_slow(pattern, method, each)), None))
    ]


@pytest.mark.parametrize("module_name", module_names())
def test_expressions_take_time_in_proportion_to_the_text(module_name: str) -> None:
    assert slow_expressions(module_name, most=3) == []


@pytest.mark.suite(name="hostile")
@pytest.mark.parametrize("module_name", module_names())
def test_expressions_take_time_in_proportion_to_many_texts(module_name: str) -> None:
    assert slow_expressions(module_name, most=18) == []
