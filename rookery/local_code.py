"""Classes and functions by name, also those that exist in this process only.

A class from a notebook cell, from `__main__` or from inside a function cannot be imported
by another process. It is kept here under `module:name`, and a run that uses it trains in
one process. All other code is named so that any process can import it: `./file.py:Name` or
`package.module:Name`.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType
from typing import Any

MAIN = "__main__"
LOCAL = "<locals>"
_objects: dict[str, Any] = {}


def name_of(code: Any) -> str:
    """Return a name by which `plugins.load_object` finds a class or function.

    If no other process could import it, it is kept, and its name is local.
    """
    module, name = sys.modules.get(code.__module__), code.__qualname__
    if module is not None and code.__module__ != MAIN and vars(module).get(name) is code:
        package, _, _ = module.__name__.partition(".")
        if module.__package__ and PathFinder.find_spec(package):
            return f"{module.__name__}:{name}"
        if not module.__package__ and getattr(module, "__file__", None):
            return f"{_shown_path(Path(str(module.__file__)))}:{name}"
    local = f"{code.__module__}:{name}"
    if not is_local(local):  # in a module that cannot be found again
        local = f"{MAIN}:{name}"
    _objects[local] = code
    return local


def _shown_path(path: Path) -> str:
    """Return a path relative to the working directory, if the file is below it."""
    path = path.resolve()
    folder = Path.cwd()
    return f"./{path.relative_to(folder)}" if path.is_relative_to(folder) else str(path)


def is_code(value: object) -> bool:
    """Whether a value from Python is a class or a function, rather than its name."""
    return isinstance(value, type | FunctionType)


def is_local(name: str) -> bool:
    """Whether a name is that of code that no other process can import."""
    source, _, attribute = name.rpartition(":")
    return source == MAIN or LOCAL in attribute


def find_local(name: str) -> Any:
    """Return the class or function of a local name; None if this process has none."""
    return _objects.get(name)


def bind(name: str, code: Any) -> None:
    """Use a class or function under a local name that a run has recorded."""
    _objects[name] = code


def short_name(name: str) -> str:
    """Return the name of a class or function without where it is from."""
    return name.rpartition(":")[2].rpartition(".")[2]


def source_checksum(name: str) -> str:
    """Return the SHA-256 of the source of local code; '' if it cannot be read.

    The source of a class includes its local base classes.
    """
    code = find_local(name)
    classes = inspect.getmro(code) if isinstance(code, type) else (code,)
    own = [part for part in classes if part is code or part.__module__ == MAIN]
    texts = [_source(part) for part in own]
    if not all(texts):
        return ""
    return hashlib.sha256("\n".join(map(str, texts)).encode()).hexdigest()


def _source(code: Any) -> str:
    """Return the source of a class or function; '' if it cannot be read."""
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):  # before Python 3.13, every class from a notebook cell
        return _source_from_methods(code)


def _source_from_methods(code: Any) -> str:
    """Return the source of a class, from the cell that its methods were compiled in."""
    functions = [value for value in vars(code).values() if isinstance(value, FunctionType)]
    for function in functions:
        text = "".join(linecache.getlines(function.__code__.co_filename))
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except SyntaxError:  # the cell has magics
            continue
        for node in nodes:
            if isinstance(node, ast.ClassDef) and node.name == code.__name__:
                return ast.get_source_segment(text, node) or ""
    return ""
