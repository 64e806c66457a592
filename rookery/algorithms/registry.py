"""Algorithms by name: every `Algorithm` in a module of this package, and a user's own."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import rookery.algorithms
from rookery.algorithms.base import Algorithm
from rookery.algorithms.custom.loading import is_own, own_algorithm
from rookery.errors import ConfigError, nearest


@cache
def algorithms() -> dict[str, Algorithm]:
    """Return our own algorithms by name."""
    found = {}
    for module in pkgutil.iter_modules(rookery.algorithms.__path__, "rookery.algorithms."):
        if module.name == __name__:
            continue
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Algorithm):
                found[value.name] = value
    return found


def find_algorithm(name: str) -> Algorithm:
    """Return the algorithm of this name, or in this file (`./mine.py:Mine`)."""
    if is_own(name):
        return own_algorithm(name)
    known = algorithms()
    if name not in known:
        raise ConfigError(f"unknown algorithm '{name}': {nearest(name, known)}")
    return known[name]
