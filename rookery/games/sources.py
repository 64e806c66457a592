"""The source of users' classes, read as a syntax tree: which names a game uses, and where.

Nothing is executed. A class whose source cannot be read has no trees.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rookery.games.locate import is_users_class, place


@dataclass(frozen=True)
class ClassSource:
    """A user's class in its file."""

    kind: type
    filename: str
    module: ast.Module
    node: ast.ClassDef

    def place(self, node: ast.AST) -> str:
        """Return where a node is: 'coins.py, line 12'."""
        return place(self.filename, getattr(node, "lineno", None))

    def methods(self) -> Iterator[ast.FunctionDef]:
        """Yield the methods of the class."""
        for statement in self.node.body:
            if isinstance(statement, ast.FunctionDef):
                yield statement

    def definition(self, name: str) -> ast.AST | None:
        """Return the statement that defines an attribute, such as `self.coin = …`."""
        for statement in self.node.body:
            is_named = getattr(statement, "name", "") == name  # a method or a class
            if is_named or name in (target for target, _ in assigned(statement)):
                return statement
        for node in ast.walk(self.node):
            if name in (target for target, _ in assigned(node)):
                return node
        return None

    @property
    def variables(self) -> dict[str, Any]:
        """The global variables of the class's module."""
        return vars(sys.modules.get(self.kind.__module__, object))


class Sources:
    """The classes of a user from which a game or a player is made, most derived first."""

    def __init__(self, kind: type) -> None:
        users = [
            base for base in kind.__mro__ if is_users_class(base) and base is not object
        ]
        self.classes = [source for base in users if (source := _read(base)) is not None]

    @cached_property
    def words(self) -> dict[str, int]:
        """How often each name, attribute and text is used in the files of the classes."""
        words: dict[str, int] = {}
        trees = {source.filename: source.module for source in self.classes}
        for tree in trees.values():
            for node in ast.walk(tree):
                word = _word(node)
                if word is not None:
                    words[word] = words.get(word, 0) + 1
        return words

    def place(self, name: str = "") -> str:
        """Return where the class, a method or an attribute of it is; '' if unknown."""
        for source in self.classes:
            node = source.definition(name) if name else source.node
            if node is not None:
                return source.place(node)
        return self.classes[0].place(self.classes[0].node) if self.classes else ""

    def prefix(self, name: str = "") -> str:
        """Return the place as the beginning of a message; '' if unknown."""
        where = self.place(name)
        return f"{where}: " if where else ""


def assigned(statement: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names and attributes that a statement assigns, with their targets."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    for target in targets:
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for element in elements:
            if isinstance(element, ast.Name):
                yield element.id, element
            elif isinstance(element, ast.Attribute):
                yield element.attr, element
            elif isinstance(element, ast.Subscript):
                yield _word(element.value) or "", element


def text_line(source: ClassSource, text: str, name: str) -> str:
    """Return the place of a line within a text that the class assigns to `name`."""
    lines = linecache.getlines(source.filename)
    for node in ast.walk(source.node):
        if name in (target for target, _ in assigned(node)):
            first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
            for number in range(first, last + 1):
                if text and text in lines[number - 1]:
                    return place(source.filename, number)
            return place(source.filename, first)
    return ""


def _word(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=word):
            return word
        case ast.Constant(value=str(word)):
            return word
        case ast.alias(name=word):
            return word
    return None


def _read(kind: type) -> ClassSource | None:
    filename = _filename(kind)
    linecache.checkcache(filename)  # a file may have been edited since it was read
    lines = linecache.getlines(filename) if filename else []
    try:
        module = ast.parse("".join(lines))
    except SyntaxError:  # the file was edited since
        return None
    codes = _first_lines(kind)
    named = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    ]
    for node in named:
        inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if all(line in inside for line in codes):
            return ClassSource(kind, filename, module, node)
    return None


def _functions(kind: type) -> Iterator[Any]:
    for member in vars(kind).values():
        code = getattr(member, "__code__", None)
        if code is not None and member.__qualname__.startswith(f"{kind.__qualname__}."):
            yield code


def _first_lines(kind: type) -> list[int]:
    return [code.co_firstlineno for code in _functions(kind)]


def _filename(kind: type) -> str:
    for code in _functions(kind):
        return str(code.co_filename)
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
