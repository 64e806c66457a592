"""The users' files that a cell needs on another machine, and nothing else.

Those are the files that its settings name, and the modules that they import from their own
folders. They are found by reading the files; nothing is run.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.local_code import is_local, short_name
from rookery.protocol.user_files import code_of, files_named
from rookery.sweeps.trust import Named


@dataclass(frozen=True)
class CodeFile:
    """A file with a user's code."""

    data: bytes
    sha256: str


def code_for(config: Config) -> dict[str, CodeFile]:
    """Return the files that a run needs, by path relative to the working directory.

    Raises:
        ConfigError: if it needs something that cannot be at the same path on another
            machine.
    """
    for agent in config.agents.values():
        if agent.start_from is not None:
            raise ConfigError(
                f"agents start from {agent.start_from}, which other machines do not have: "
                "train this sweep with --on local."
            )
    used = [*code_of(config), *([config.probe.code] if config.probe.code else [])]
    for name in filter(is_local, used):
        raise ConfigError(
            f"'{name}' was defined in a notebook or a script, so other machines cannot get "
            f"it: put it into a file and name it ./file.py:{short_name(name)}."
        )
    for name in used:
        _refuse_missing(name)
    files: dict[str, CodeFile] = {}
    for name in files_named(config):
        paths = {Path(name).resolve(): _portable(name)}
        for path in imported_files(Path(name)):
            folder, inside = Path(name).resolve().parent, Path(_portable(name)).parent
            paths[path] = (inside / path.relative_to(folder)).as_posix()
        for path, portable in paths.items():
            files[portable] = _read(path)
    return files


def names_for(config: Config) -> Named:
    """Return the code that a run names, which the user has named, too."""
    probes = [config.probe.code] if config.probe.code else []
    return Named([config.game.name], code_of(config)[1:], probes)


def _refuse_missing(name: str) -> None:
    source = name.rpartition(":")[0] or name
    if source.endswith(".py") and not Path(source).is_file():
        raise ConfigError(f"there is no file '{source}': start the sweep where it is.")


def _read(path: Path) -> CodeFile:
    data = path.read_bytes()
    return CodeFile(data, hashlib.sha256(data).hexdigest())


def _portable(name: str) -> str:
    """Return the path of a file below the working directory, without '.' and '..'."""
    path = os.path.normpath(name)
    if os.path.isabs(path) or path.startswith(".."):
        raise ConfigError(
            f"{name} is not below the working directory, so other machines cannot have it "
            "at the same path: start the sweep in a folder above it, and name it ./FILE.py."
        )
    return Path(path).as_posix()


def imported_files(file: Path) -> set[Path]:
    """Return the modules that a file imports from its own folder, directly or not."""
    main = file.resolve()
    found: set[Path] = set()
    new = {main}
    while new:
        path = new.pop()
        found.add(path)
        new |= set(_imports(path, main.parent)) - found
    return found - {main}


def _imports(path: Path, folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that a module imports."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError):  # where it is imported, the error is reported
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _absolute(alias.name.split("."), folder)
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            for alias in node.names:
                if node.level:
                    base = path.parents[node.level - 1]
                    if base.is_relative_to(folder):
                        yield from _files_of([*module, alias.name], base)
                else:
                    yield from _absolute([*module, alias.name], folder)


def _absolute(parts: list[str], folder: Path) -> Iterator[Path]:
    """Yield the files of an absolute import, unless the module is installed."""
    if not _is_elsewhere(parts[0], folder):
        yield from _files_of(parts, folder)


def _is_elsewhere(name: str, folder: Path) -> bool:
    """Whether a module comes from another place than a folder of the user.

    That folder is the last one in which modules are looked for.
    """
    if name in sys.stdlib_module_names or name == "rookery":
        return True
    others = [path for path in sys.path if Path(path).resolve() != folder]
    return PathFinder.find_spec(name, others) is not None


def _files_of(parts: list[str], base: Path) -> Iterator[Path]:
    """Yield the files that are executed when a module below a folder is imported.

    The last part can be something within a module.
    """
    for i, part in enumerate(parts):
        package, module = base / part / "__init__.py", base / f"{part}.py"
        if package.is_file():
            yield package
        elif module.is_file():
            yield module
            return
        elif not (base / part).is_dir() or i == len(parts) - 1:
            return
        base = base / part
