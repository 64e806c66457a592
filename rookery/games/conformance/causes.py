"""Likely causes of a failed check, found in the source and in the state of a game.

A check compares results and so finds symptoms. The causes here are the usual ones: a
random number that is not the world's, a value computed over all worlds, state that the
engine does not know.
"""

from __future__ import annotations

import ast
import random
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rookery.games.sources import ClassSource, Sources, assigned

BUILDING = ("declare", "__init__")
"""Methods that are called once, so that what they set on self is no state."""
REDUCTIONS = frozenset(
    {"any", "all", "sum", "mean", "max", "min", "prod", "item", "argmax", "argmin"}
    | {"median", "std", "count_nonzero", "nonzero", "flatnonzero", "tolist"}
)
BUILTIN_REDUCTIONS = frozenset({"any", "all", "sum", "max", "min", "bool", "int", "float"})
RANDOM = ("np.random", "numpy.random", "random", "secrets", "uuid", "time", "datetime")
RANDOM_NAMES = frozenset({"urandom", "default_rng", "shuffle", "randint", "choice"})
LISTED = 3
DEPTH = 4
"""How far changes inside values are looked for."""


class Watch:
    """What a game or a player must not change while it plays: globals and random state."""

    def __init__(self, owner: Any, sources: Sources, attributes: bool = True) -> None:
        self._owner, self._sources, self._attributes = owner, sources, attributes
        self._before = self._state()
        self._random = random_state()

    def _state(self) -> dict[str, str]:
        own = vars(self._owner) if self._attributes else {}
        state = fingerprints("self", own)
        for source in self._sources.classes:
            state |= fingerprints(source.kind.__name__, vars(source.kind))
            used = self._sources.words
            variables = {k: v for k, v in source.variables.items() if k in used}
            state |= fingerprints("", variables)
        return state

    def changed(self) -> list[str]:
        """Return the attributes and variables that have changed since: 'self.total'."""
        after = self._state()
        return [name for name in after if self._before.get(name) != after[name]]

    def drew(self) -> list[str]:
        """Return the global random generators that were used since."""
        now = random_state()
        return [name for name in now if now[name] != self._random[name]]


def random_state() -> dict[str, str]:
    """Return the state of Python's and numpy's global generators."""
    return {
        "np.random": content_of(np.random.get_state()),
        "random": content_of(random.getstate()),
    }


def content_of(value: Any, depth: int = DEPTH) -> str:
    """Return everything that a value holds as text, down to some depth."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    if depth and isinstance(value, Mapping):
        value = list(value.items())
    if depth and isinstance(value, list | tuple | set | frozenset | deque | np.ndarray):
        return f"[{', '.join(content_of(inner, depth - 1) for inner in value)}]"
    if depth and hasattr(value, "__dict__"):
        return f"{type(value).__name__}{content_of(vars(value), depth - 1)}"
    return repr(value)


def fingerprints(owner: str, members: Any) -> dict[str, str]:
    """Return the content of values by name, so that changes are seen inside them, too."""
    prints = {}
    for name, value in dict(members).items():
        is_code = isinstance(value, type | types.ModuleType | types.FunctionType)
        if name.startswith("__") or is_code:
            continue
        with suppress(Exception):  # of a user's __repr__ or __iter__
            prints[f"{owner}.{name}".lstrip(".")] = content_of(value)
    return prints


def where_set(sources: Sources, names: Sequence[str]) -> str:
    """Return the attributes or variables with the lines that change them, as text."""
    texts = []
    for name in names[:LISTED]:
        word = name.rpartition(".")[2]
        lines = [
            source.place(node)
            for source in sources.classes
            for method in source.methods()
            if method.name not in BUILDING
            for node in ast.walk(method)
            if _changes(node, word)
        ]
        texts.append(f"{name} ({lines[0]})" if lines else name)
    return ", ".join(texts)


def _changes(node: ast.AST, word: str) -> bool:
    """Whether a statement assigns to a name or attribute, or calls a method of it."""
    if any(name == word for name, _ in assigned(node)):
        return True
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name))):
            return name == word
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name == word
        case ast.NamedExpr(target=ast.Name(id=name)):
            return name == word
    return False


def _nodes(sources: Sources) -> Iterator[tuple[ClassSource, ast.AST]]:
    """Yield the code that runs in every turn."""
    for source in sources.classes:
        for method in source.methods():
            if method.name not in BUILDING:
                for node in ast.walk(method):
                    yield source, node


def reductions(sources: Sources) -> list[str]:
    """Return expressions that make one value of all worlds, with their lines."""
    calls = [(s, n) for s, n in _nodes(sources) if isinstance(n, ast.Call)]
    found = [(s, n) for s, n in calls if _is_reduction(n)]
    items = [(s, n) for s, n in _nodes(sources) if _is_one_world(n)]
    return _listed([*found, *items])


def _is_reduction(call: ast.Call) -> bool:
    if any(keyword.arg == "axis" for keyword in call.keywords):
        return False
    match call.func:
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name):
            return name in REDUCTIONS and len(call.args) == 1
        case ast.Attribute(attr=name):
            return name in REDUCTIONS and not call.args
        case ast.Name(id=name):
            return name in BUILTIN_REDUCTIONS and len(call.args) == 1
    return False


def _is_one_world(node: ast.AST) -> bool:
    """Whether this takes one entry by a constant number, as in `world.uniform()[0]`."""
    match node:
        case ast.Subscript(value=value, slice=ast.Constant(value=int()), ctx=ast.Load()):
            return not (isinstance(value, ast.Attribute) and value.attr == "agents")
    return False


def random_uses(sources: Sources) -> list[str]:
    """Return expressions that draw random numbers elsewhere, or read the clock."""
    return _listed(
        [
            (source, node)
            for source, node in _nodes(sources)
            if isinstance(node, ast.Call) and _is_random(source, node.func)
        ]
    )


def _is_random(source: ClassSource, function: ast.expr) -> bool:
    text = ast.unparse(function)
    if text.startswith(tuple(f"{name}." for name in RANDOM)):
        return True
    if isinstance(function, ast.Name):
        value = source.variables.get(function.id)
        owner = getattr(value, "__self__", None)
        is_random = isinstance(owner, random.Random | np.random.RandomState)
        return is_random or getattr(value, "__module__", "") in RANDOM
    if isinstance(function, ast.Attribute):
        root = text.split(".")[0]
        value = source.variables.get(root)
        if isinstance(value, types.ModuleType) and value.__name__ in RANDOM:
            return True
        is_self = root == "self" and text.count(".") > 1
        return function.attr in RANDOM_NAMES or (is_self and function.attr == "random")
    return False


def seat_uses(sources: Sources) -> list[str]:
    """Return expressions that tell one agent from another by its number."""
    return _listed(
        [
            (source, node)
            for source, node in _nodes(sources)
            if (isinstance(node, ast.Attribute) and node.attr == "number")
            or _is_fixed_agent(node)
            or (
                isinstance(node, ast.For | ast.comprehension)
                and "agents" in ast.unparse(node.iter)
                and isinstance(node, ast.For)
            )
        ]
    )


def id_uses(sources: Sources) -> list[str]:
    """Return what a player does with its agent's id: comparisons, or else the id itself."""
    nodes = [
        (source, node)
        for source in sources.classes
        for method in source.methods()
        for node in ast.walk(method)
        if isinstance(node, ast.Compare | ast.Attribute) and "spec.id" in ast.unparse(node)
    ]
    comparisons = [(s, n) for s, n in nodes if isinstance(n, ast.Compare)]
    ids = [(s, n) for s, n in nodes if ast.unparse(n).endswith("spec.id")]
    return _listed(comparisons or ids)


def _is_fixed_agent(node: ast.AST) -> bool:
    """Whether this picks an agent by a constant number, as in `world.agents[0]`."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="agents"), slice=ast.Constant()):
            return True
    return False


def _listed(nodes: list[tuple[ClassSource, Any]]) -> list[str]:
    """Return nodes as text with their lines, each once."""
    texts = []
    for source, node in nodes:
        code = ast.unparse(node.iter if isinstance(node, ast.For) else node)
        texts.append(f"`{code}` ({source.place(node)})")
    return list(dict.fromkeys(texts))


def some(texts: Sequence[str]) -> str:
    """Return the first few texts, and how many more there are."""
    more = f" and {len(texts) - LISTED} more" if len(texts) > LISTED else ""
    return f"{', '.join(texts[:LISTED])}{more}"
