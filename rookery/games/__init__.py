"""Games: the contract, the grid engine, built-in games, and adapters to foreign ones."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """Makes `rookery.games()` list the games, although `rookery.games` is this package."""

    def __call__(self) -> Any:
        return import_module("rookery.api.games").games()


sys.modules[__name__].__class__ = _CallablePackage
