"""Users' own code by path: a module, a file, or one thing inside of them.

Used wherever a game or an algorithm comes from outside: `./mygame.py:Zap`,
`mpe2.simple_spread_v3`, `package.module:function`. Whatever is wrong with such a path is
a `ConfigError` of one line, because the user can put it right.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from rookery.errors import ConfigError, nearest
from rookery.stop import LEAVING

FOREIGN = ("pettingzoo", "gymnasium")
"""What stands before a foreign game's path, and names a module of `games.foreign`."""


def foreign_name(name: str) -> tuple[str, str]:
    """Return whose game it is and its path; nobody's, and the name, if it is our own."""
    tongue, colon, path = name.partition(":")
    return (tongue, path) if colon and tongue in FOREIGN else ("", name)


def load_object(path: str) -> Any:
    """Return what `./file.py:name` or `module:name` names."""
    source, colon, name = path.rpartition(":")
    if not colon or not source or not name:
        raise ConfigError(
            f"'{path}' does not say what to take from the file: write it as "
            "./file.py:name or module:name."
        )
    return attribute(load_module(source), name, source)


def load_module(source: str) -> ModuleType:
    """Return the module that a dotted name or a path to a .py file names."""
    if is_file(source):
        return _load_file(Path(source))
    return _load_dotted(source)


def is_file(source: str) -> bool:
    """Whether `source` is meant as a file rather than as a module's name."""
    return source.endswith(".py") or "/" in source or "\\" in source


def attribute(module: ModuleType, name: str, source: str) -> Any:
    """Return `module.name`, or say what it has instead."""
    try:
        return getattr(module, name)
    except AttributeError:
        known = [n for n in vars(module) if not n.startswith("_")]
        raise ConfigError(f"'{source}' has no '{name}': {nearest(name, known)}") from None


def one_line(error: BaseException) -> str:
    """Return an exception as 'Type: message', without line breaks."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def where(error: BaseException) -> str:
    """Return an exception in one line, with the place in the code it came from."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    return f"{one_line(error).rstrip('.')} ({place})"


@contextmanager
def _calm() -> Iterator[None]:
    """Import without announcements: PettingZoo's modules say that they will move."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _load_file(path: Path) -> ModuleType:
    full = path.expanduser().resolve()
    if not full.is_file():
        raise ConfigError(
            f"There is no file '{path}' ({full}): check the path, which counts from "
            "the folder the command runs in."
        )
    name = _module_name(full)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise ConfigError(f"'{full}' is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickling look their module up while it is still being executed.
    sys.modules[name] = module
    # Last, so that a file's neighbours can be imported and nothing is shadowed.
    if str(full.parent) not in sys.path:
        sys.path.append(str(full.parent))
    try:
        with _calm():
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, LEAVING):
            raise
        raise ConfigError(
            f"'{path}' could not be imported{line_in(full, error)}: {one_line(error)}"
        ) from error
    return module


def _module_name(full: Path) -> str:
    """Return a name of its own for each file and content; an edited file loads anew."""
    digest = hashlib.sha256(str(full).encode() + b"\0" + full.read_bytes())
    return f"rookery_file_{full.stem}_{digest.hexdigest()[:12]}"


def line_in(full: Path, error: BaseException) -> str:
    """Return ' (line 12)', the last line of a file on the way to an error, or nothing."""
    if isinstance(error, SyntaxError):
        return f" (line {error.lineno})"
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(full):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""


def _load_dotted(name: str) -> ModuleType:
    try:
        with _calm():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(_advice(name, error.name or "")) from error
    except LEAVING:
        raise
    except BaseException as error:
        raise ConfigError(
            f"The module '{name}' could not be imported: {one_line(error)}"
        ) from error


def _advice(name: str, missing: str) -> str:
    """Return what to do when importing `name` did not find the module `missing`."""
    parent, _, _ = missing.rpartition(".")
    if name != missing and not name.startswith(f"{missing}."):
        return (
            f"The module '{name}' needs '{missing}', which is not installed: "
            f"pip install {missing.split('.')[0]} (the package may have another name)."
        )
    if not parent:
        return (
            f"There is no module '{missing}': pip install {missing}, or write a file "
            "as ./file.py:name."
        )
    package = sys.modules.get(parent)
    paths = getattr(package, "__path__", [])
    known = [f"{parent}.{found.name}" for found in pkgutil.iter_modules(paths)]
    return f"There is no module '{missing}': {nearest(missing, known)}"
