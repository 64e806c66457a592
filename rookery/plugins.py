"""Loading users' code by path: a module, a file, or an object in one of them.

Used wherever a game or an algorithm comes from outside: `./mygame.py:Zap`,
`mpe2.simple_spread_v3`, `package.module:function`. Anything wrong with such a path is a
`ConfigError` of one line, because the user can fix it.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from rookery.errors import ConfigError, nearest
from rookery.local_code import bind, find_local, is_local, short_name
from rookery.stop import LEAVING

PACKAGES = {
    "ale_py": "ale-py",
    "Box2D": "'gymnasium[box2d]'",
    "chess": "'pettingzoo[classic]'",
    "cv2": "opencv-python",
    "hanabi_learning_environment": "hanabi-learning-environment",
    "gymnasium": "gymnasium",
    "highway_env": "highway-env",
    "lbforaging": "lbforaging",
    "magent2": "magent2",
    "meltingpot": "dm-meltingpot",
    "minigrid": "minigrid",
    "mpe2": "mpe2",
    "pettingzoo": "pettingzoo",
    "mujoco": "'gymnasium[mujoco]'",
    "multi_agent_ale_py": "multi-agent-ale-py",
    "open_spiel": "open_spiel",
    "pygame": "pygame-ce",
    "pymunk": "'pettingzoo[butterfly]'",
    "pyspiel": "open_spiel",
    "rlcard": "'pettingzoo[classic]'",
    "scipy": "scipy",
    "shimmy": "shimmy",
    "stable_baselines3": "stable-baselines3",
    "supersuit": "supersuit",
}
"""Packages of games, and what games need: the name to import to the one for pip."""
FOREIGN = ("pettingzoo", "gymnasium")
"""Libraries whose games are named LIBRARY:PATH; each has a module in `games.adapters`."""


def foreign_name(name: str) -> tuple[str, str]:
    """Return a game's library and its path there; ('', name) if it is not foreign."""
    library, colon, path = name.partition(":")
    return (library, path) if colon and library in FOREIGN else ("", name)


def load_object(path: str) -> Any:
    """Return the object at `./file.py:name` or `module:name`."""
    if is_local(path):
        return _load_local(path)
    source, colon, name = path.rpartition(":")
    if not colon or not source or not name:
        raise ConfigError(
            f"'{path}' does not say what to take from the file: write it as "
            "./file.py:name or module:name."
        )
    return attribute(load_module(source), name, source)


def _load_local(path: str) -> Any:
    code = find_local(path)
    if code is None:
        name = short_name(path)
        raise ConfigError(
            f"'{path}' was defined in a notebook or a script, where only the Python "
            f"process that defined it finds it: define {name} again and pass it, or put it "
            f"into a file and name it ./file.py:{name}."
        )
    return code


def stands_in(path: str, named: Iterable[str]) -> bool:
    """Whether the user named code for a local name that a run has recorded.

    A class that was defined in a notebook can be defined again, or be in a file by now: it
    must have the same name.
    """
    for name in named if is_local(path) else ():
        if short_name(name) == short_name(path):
            bind(path, load_object(name))
            return True
    return False


def load_module(source: str) -> ModuleType:
    """Return the module with a dotted name, or in a .py file."""
    if is_file(source):
        return _load_file(Path(source))
    return _load_dotted(source)


def is_file(source: str) -> bool:
    """Whether `source` is the path of a file rather than the name of a module."""
    return source.endswith(".py") or "/" in source or "\\" in source


def attribute(module: ModuleType, name: str, source: str) -> Any:
    """Return `module.name`; if there is none, the error suggests another name."""
    try:
        return getattr(module, name)
    except AttributeError:
        known = [key for key in vars(module) if not key.startswith("_")]
        raise ConfigError(f"'{source}' has no '{name}': {nearest(name, known)}") from None


def describe_error(error: BaseException) -> str:
    """Return an exception as 'Type: message', without line breaks."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def _without_deprecations() -> Iterator[None]:
    """Hide deprecation warnings: PettingZoo's modules announce on import that they move."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _load_file(path: Path) -> ModuleType:
    full = path.expanduser().resolve()
    if not full.is_file():
        raise ConfigError(
            f"There is no file '{path}' ({full}): check the path, which is relative to "
            "the working directory."
        )
    name = _module_name(full)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise ConfigError(f"'{full}' is not a Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module while it is still being executed.
    sys.modules[name] = module
    # Appended, so that modules beside the file can be imported but shadow nothing.
    if str(full.parent) not in sys.path:
        sys.path.append(str(full.parent))
    try:
        with _without_deprecations():
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, LEAVING):
            raise
        raise ConfigError(
            f"'{path}' could not be imported{line_in(full, error)}: {describe_error(error)}"
        ) from error
    return module


def _module_name(full: Path) -> str:
    """Return a name that is unique to path and content, so an edited file is reloaded."""
    digest = hashlib.sha256(str(full).encode() + b"\0" + full.read_bytes())
    return f"rookery_file_{full.stem}_{digest.hexdigest()[:12]}"


def line_in(full: Path, error: BaseException) -> str:
    """Return ' (line 12)', the innermost line of a file in a traceback, or ''."""
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
        with _without_deprecations():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(_advice(name, error.name or "")) from error
    except LEAVING:
        raise
    except BaseException as error:
        raise ConfigError(
            f"The module '{name}' could not be imported: {describe_error(error)}"
        ) from error


def _advice(name: str, missing: str) -> str:
    """Return what to do when importing `name` failed because `missing` was not found.

    A word that a user may have mistyped is never advice for pip: anybody can publish a
    package under such a name.
    """
    package, _, _ = missing.partition(".")
    parent, _, _ = missing.rpartition(".")
    known = PACKAGES.get(package)
    if name != missing and not name.startswith(f"{missing}."):
        remedy = f"pip install {known}" if known else "install the package that has it"
        return f"The module '{name}' needs '{missing}', which is not installed: {remedy}."
    if parent:
        return f"There is no module '{missing}': {similar_module(missing, _inside(parent))}"
    if known:
        return f"The module '{missing}' is not installed: pip install {known}."
    similar = difflib.get_close_matches(missing, _top_level_modules(), n=1, cutoff=0.75)
    remedy = f"did you mean '{similar[0]}'? If not," if similar else "check its name, or"
    return (
        f"There is no module '{missing}': {remedy} install the package that has it; write "
        "a file as ./file.py:name."
    )


def similar_module(name: str, known: Iterable[str]) -> str:
    """Return advice for an unknown module: the most similar one, or the list of them.

    Modules are compared by their last name without its version, so that rps_v3 is answered
    with pettingzoo.classic.rps_v2.
    """
    names = sorted(known)
    by_last_name = {_without_version(full): full for full in names}
    last = _without_version(name)
    similar = difflib.get_close_matches(last, by_last_name, n=1, cutoff=0.7)
    return nearest(by_last_name[similar[0]] if similar else "", names)


def _without_version(module: str) -> str:
    return re.sub(r"_v\d+$", "", module.rpartition(".")[2].lower())


def _inside(package: str) -> list[str]:
    """Return the modules in a package; only games, if it has modules with versions."""
    paths = getattr(sys.modules.get(package), "__path__", [])
    names = [f"{package}.{module.name}" for module in pkgutil.iter_modules(paths)]
    return [name for name in names if re.search(r"_v\d+$", name)] or names


def _top_level_modules() -> set[str]:
    installed = {module.name for module in pkgutil.iter_modules()}
    return installed | {*PACKAGES, *sys.stdlib_module_names}
