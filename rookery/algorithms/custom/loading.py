"""Custom algorithms and networks by import path: `algorithm=./mine.py:Mine`.

There are two kinds of class. A *network* is a torch.nn.Module, built as `Net(spec,
settings)`, whose `forward` turns the parts of an observation into action values; it is
trained by double DQN. An *algorithm* is any class, built the same way, with `values` (or
`probabilities`), `update`, `state` and `load`. Neither is ever stacked. Code is named by
the user, on the command line or in Python, and never by a file that is loaded.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from rookery.algorithms.base import Algorithm
from rookery.algorithms.custom.learner import CustomLearner, CustomPolicy
from rookery.algorithms.custom.network import CustomNetworkLearner, CustomNetworkPolicy
from rookery.algorithms.custom.sandbox import UserClass
from rookery.config.messages import shown
from rookery.errors import ConfigError
from rookery.plugins import load_object

ACTING = ("values", "probabilities")
"""An algorithm has exactly one of these methods."""
LEARNING = ("update", "state", "load")
"""An algorithm has all of these methods."""
REMEDY = (
    "name a class that extends torch.nn.Module, or one that has values (or "
    "probabilities), update, state and load."
)


def is_custom(name: str) -> bool:
    """Whether the name of an algorithm is the path of a custom one."""
    return ":" in name or name.endswith(".py")


def load_custom_algorithm(name: str) -> Algorithm:
    """Import the class that a path names, and return it as an algorithm."""
    loaded = load_object(name)
    if not isinstance(loaded, type):
        raise ConfigError(f"'{name}' is {shown(repr(loaded))}, not a class: {REMEDY}")
    acting = [method for method in ACTING if callable(getattr(loaded, method, None))]
    missing = [method for method in LEARNING if not callable(getattr(loaded, method, None))]
    attributes: dict[str, Any] = {"user_class": UserClass(name, loaded)}
    bases: tuple[type, type]
    if len(acting) == 1 and not missing:
        attributes["method"] = acting[0]
        bases = CustomPolicy, CustomLearner
    elif issubclass(loaded, nn.Module):
        bases = CustomNetworkPolicy, CustomNetworkLearner
    else:
        raise ConfigError(_incomplete(name, acting, missing))
    policy, learner = (type("Custom", (base,), attributes) for base in bases)
    return Algorithm(name, policy, learner, stackable=False)


def _incomplete(name: str, acting: list[str], missing: list[str]) -> str:
    if len(acting) == 2:
        return f"'{name}' has both values and probabilities: remove one of them."
    missing = ([] if acting else ["values (or probabilities)"]) + missing
    if len(missing) == 1 + len(LEARNING):
        return f"'{name}' is neither a network nor an algorithm: {REMEDY}"
    return f"'{name}' is not a complete algorithm: it lacks {', '.join(missing)}."
