"""Global state in users' code, which agents could share.

A module is loaded once per process, so its top-level variables and class attributes are the
same for all agents that are trained in the process.
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
"""How deeply nested lists and dictionaries are compared."""


@contextmanager
def fresh_code(names: Sequence[str]) -> Iterator[None]:
    """Load users' files again inside this context, as in a new process."""
    modules = {module.__name__: module for module in _modules(names).values()}
    for name in modules:
        sys.modules.pop(name, None)
    try:
        yield
    finally:
        sys.modules.update(modules)


def global_state(names: Sequence[str]) -> dict[str, str]:
    """Return a digest of every variable of users' modules and classes, by name."""
    digests = {}
    for source, module in _modules(names).items():
        for name, value in _variables(module):
            digests[f"{name} in {source}"] = _digest(value)
    return {name: digest for name, digest in digests.items() if digest}


def _modules(names: Sequence[str]) -> dict[str, ModuleType]:
    """Return the loaded modules of users' algorithms, by file."""
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
    """Return a digest of data; '' for functions and other things that hold no data."""
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
