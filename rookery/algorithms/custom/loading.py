"""A user's own algorithm or network by import path: `algorithm=./mine.py:Mine`.

Two kinds of class will do. A *network* is a torch.nn.Module, made as `Net(spec,
settings)`, whose `forward` turns the parts of an observation into action values; it is
trained by a double DQN. An *algorithm* is any class, made alike, with `values` (or
`probabilities`), `update`, `state` and `load`. Neither is ever stacked. Code is named by
the user, in words or in Python, and never by a file that is loaded.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from rookery.algorithms.base import Algorithm
from rookery.algorithms.custom.learner import CustomLearner, CustomPolicy
from rookery.algorithms.custom.network import CustomNetworkLearner, CustomNetworkPolicy
from rookery.algorithms.custom.sandbox import Code
from rookery.config.messages import shown
from rookery.errors import ConfigError
from rookery.plugins import load_object

ACTS = ("values", "probabilities")
LEARNS = ("update", "state", "load")
REMEDY = (
    "name a class that extends torch.nn.Module, or one that has values (or "
    "probabilities), update, state and load."
)


def is_own(name: str) -> bool:
    """Whether the name of an algorithm is the path of a user's own."""
    return ":" in name or name.endswith(".py")


def own_algorithm(name: str) -> Algorithm:
    """Return the algorithm that a path names."""
    found = load_object(name)
    if not isinstance(found, type):
        raise ConfigError(f"'{name}' is {shown(repr(found))}, not a class: {REMEDY}")
    acts = [method for method in ACTS if callable(getattr(found, method, None))]
    lacks = [method for method in LEARNS if not callable(getattr(found, method, None))]
    code: dict[str, Any] = {"code": Code(name, found)}
    if len(acts) == 1 and not lacks:
        code["method"] = acts[0]
        policy, learner = (
            type("Own", (base,), code) for base in (CustomPolicy, CustomLearner)
        )
        return Algorithm(name, policy, learner, stackable=False)
    if issubclass(found, nn.Module):
        policy, learner = (
            type("Own", (base,), code)
            for base in (CustomNetworkPolicy, CustomNetworkLearner)
        )
        return Algorithm(name, policy, learner, stackable=False)
    raise ConfigError(_lacking(name, acts, lacks))


def _lacking(name: str, acts: list[str], lacks: list[str]) -> str:
    if len(acts) == 2:
        return f"'{name}' has both values and probabilities: give it one of them."
    missing = ([] if acts else ["values (or probabilities)"]) + lacks
    if len(missing) == 1 + len(LEARNS):
        return f"'{name}' is neither a network nor an algorithm: {REMEDY}"
    return f"'{name}' is no algorithm yet: it lacks {', '.join(missing)}."
