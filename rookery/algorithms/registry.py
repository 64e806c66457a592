"""Algorithms by name: those defined in this package, and custom ones by path."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import rookery.algorithms
from rookery.algorithms.base import Algorithm
from rookery.algorithms.custom.loading import is_custom, load_custom_algorithm
from rookery.errors import ConfigError, nearest


@cache
def algorithms() -> dict[str, Algorithm]:
    """Return the built-in algorithms by name."""
    by_name = {}
    for module in pkgutil.iter_modules(rookery.algorithms.__path__, "rookery.algorithms."):
        if module.name == __name__:
            continue
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Algorithm):
                by_name[value.name] = value
    return by_name


def find_algorithm(name: str) -> Algorithm:
    """Return a built-in algorithm by name, or a custom one by path (`./mine.py:Mine`)."""
    if is_custom(name):
        return load_custom_algorithm(name)
    known = algorithms()
    if name not in known:
        raise ConfigError(f"unknown algorithm '{name}': {nearest(name, known)}")
    return known[name]
