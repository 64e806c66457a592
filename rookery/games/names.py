"""Names of foreign games: short forms are completed, and wrong ones answered.

`pettingzoo:rps_v2` is `pettingzoo:pettingzoo.classic.rps_v2`, and `gymnasium:ALE/Pong-v5`
needs a package that registers it.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from rookery.errors import ConfigError
from rookery.plugins import is_file, load_module, similar_module

ZOOS = ("pettingzoo", "mpe2")
"""Packages with PettingZoo's games."""
REGISTRARS = {
    "ALE/": "ale_py",
    "BabyAI-": "minigrid",
    "MiniGrid-": "minigrid",
}
"""Modules that register Gymnasium ids, by how the ids begin."""
UNSUPPORTED = {
    "meltingpot": "Melting Pot (pip install dm-meltingpot) is not supported directly: "
    "write a function that returns a substrate as a PettingZoo ParallelEnv, and name it as "
    "pettingzoo:./file.py:function."
}
"""Libraries that are named like those with an adapter, but have none."""


def complete_name(library: str, path: str) -> str:
    """Return the full path of a game in a foreign library.

    Raises:
        ConfigError: for a path that cannot be a game's, with the most similar one.
    """
    # Nothing is ever shown in a window. Without this, SDL complains on standard error
    # about missing displays.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if library == "pettingzoo":
        return _complete_zoo_path(path)
    for beginning, module in REGISTRARS.items():
        if path.startswith(beginning):
            load_module(module)
    return path


def refuse_unsupported(name: str) -> None:
    """Raise ConfigError for a game of a library that has no adapter."""
    library = name.partition(":")[0]
    if library in UNSUPPORTED:
        raise ConfigError(f"'{name}': {UNSUPPORTED[library]}")


def _complete_zoo_path(path: str) -> str:
    module, colon, function = path.partition(":")
    package = module.partition(".")[0]
    if is_file(path) or not package or PathFinder.find_spec(package):
        return path
    games = list(zoo_games())
    matches = [name for name in games if name.endswith(f".{module}")]
    if len(matches) == 1:
        return f"{matches[0]}{colon}{function}"
    known = matches or games
    raise ConfigError(
        f"'{path}' is not a PettingZoo game: {similar_module(module, known)} Write "
        "the full name of a module, such as pettingzoo.classic.rps_v2, or "
        "./file.py:function."
    )


def zoo_games() -> Iterator[str]:
    """Yield the modules of all installed PettingZoo games, without importing them."""
    for zoo in ZOOS:
        spec = importlib.util.find_spec(zoo)
        for folder in spec.submodule_search_locations or () if spec else ():
            for inner in pkgutil.iter_modules([folder], f"{zoo}."):
                name = inner.name.rpartition(".")[2]
                if _is_game(inner.name):
                    yield inner.name
                elif inner.ispkg:
                    modules = pkgutil.iter_modules([str(Path(folder) / name)])
                    names = [f"{inner.name}.{module.name}" for module in modules]
                    yield from filter(_is_game, names)


def _is_game(module: str) -> bool:
    """Whether a module is named like a game, with a version."""
    return module.rpartition("_v")[2].isdecimal()
