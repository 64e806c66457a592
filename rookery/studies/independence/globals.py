"""What users' own code keeps outside of its instances, where agents could share it.

A module is loaded once per process, so whatever lies at its top, or in a class, is one
thing for all agents that are trained there.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn

from rookery.algorithms.custom.loading import is_custom
from rookery.plugins import is_file, load_module

DEPTH = 4
"""How far lists and tables are looked into."""


@contextmanager
def fresh_code(names: Sequence[str]) -> Iterator[None]:
    """Let files of users' own be loaded anew within, as in a new process."""
    modules = {module.__name__: module for module in _modules(names).values()}
    for name in modules:
        sys.modules.pop(name, None)
    try:
        yield
    finally:
        sys.modules.update(modules)


def kept_outside(names: Sequence[str]) -> dict[str, str]:
    """Return a digest of everything that modules and their classes hold, by name."""
    found = {}
    for source, module in _modules(names).items():
        for name, value in _variables(module):
            found[f"{name} in {source}"] = _digest(value)
    return {name: value for name, value in found.items() if value}


def _modules(names: Sequence[str]) -> dict[str, ModuleType]:
    """Return the files that algorithms of users' own come from, as they are loaded."""
    sources = {name.rpartition(":")[0] for name in names if is_custom(name)}
    return {source: load_module(source) for source in sorted(sources) if is_file(source)}


def _variables(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if isinstance(value, type):
            if value.__module__ == module.__name__:
                for inner, held in vars(value).items():
                    yield f"{name}.{inner}", held
        elif not name.startswith("__"):
            yield name, value


def _digest(value: Any) -> str:
    """Return a digest of data; nothing for what is none."""
    parts = list(_bytes(value, DEPTH))
    return hashlib.sha256(b"".join(parts)).hexdigest() if parts else ""


def _bytes(value: Any, depth: int) -> Iterator[bytes]:
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if isinstance(value, np.ndarray):
        yield str((value.dtype, value.shape)).encode() + value.tobytes()
    elif isinstance(value, (int, float, complex, str, bytes, type(None), np.generic)):
        yield repr(value).encode()
    elif isinstance(value, dict) and depth:
        for key, held in value.items():
            yield repr(key).encode()
            yield from _bytes(held, depth - 1)
    elif isinstance(value, (list, tuple, set, frozenset)) and depth:
        yield str(len(value)).encode()
        for held in value:
            yield from _bytes(held, depth - 1)
