"""Gymnasium spaces for what agents observe and can do, and observations that fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.games.base import Game
from rookery.games.gridworld import GridEngine
from rookery.games.players import Observation
from rookery.specs import AgentSpec, Array, Part

MASK = "action_mask"


def observation_space(game: Game, spec: AgentSpec) -> spaces.Space[Any]:
    """Return the space of an agent's observations: a Box, or a Dict of them by part."""
    boxes: dict[str, spaces.Space[Any]] = {
        name: _box(game, part) for name, part in spec.parts.items()
    }
    return next(iter(boxes.values())) if len(boxes) == 1 else spaces.Dict(boxes)


def action_space(spec: AgentSpec) -> spaces.Discrete:
    """Return the space of an agent's actions."""
    return spaces.Discrete(spec.num_actions)


def mask_space(spec: AgentSpec) -> spaces.Box:
    """Return the space of action masks."""
    return spaces.Box(0, 1, (spec.num_actions,), np.int8)


def observed(spec: AgentSpec, observation: Observation) -> Any:
    """Return an observation of all worlds, in arrays that belong to the caller."""
    arrays = {name: observation.parts[name].copy() for name in spec.parts}
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def action_mask(observation: Observation) -> Array | None:
    """Return the mask of legal actions, (worlds, actions) int8, or None without one.

    An agent that is not active may have no legal action; its mask is then all ones,
    because whatever it does is ignored.
    """
    if observation.legal is None:
        return None
    has_choice = observation.legal.any(axis=1, keepdims=True)
    return (observation.legal | ~has_choice).astype(np.int8)


def first_world(tree: Any) -> Any:
    """Return the arrays of world 0, at any depth of dicts."""
    if isinstance(tree, dict):
        return {name: first_world(array) for name, array in tree.items()}
    return tree[0, ...]


def _box(game: Game, part: Part) -> spaces.Box:
    """Return the space of one part, with bounds that hold for all its values.

    Bounds matter: Stable-Baselines3 takes bytes from 0 to 255 for a picture and divides
    them by 255.
    """
    if part.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, part.shape, part.dtype.type)
    if part.dtype.kind == "b" or isinstance(game, GridEngine):
        # The windows of grid games are one-hot.
        return spaces.Box(0, 1, part.shape, part.dtype.type)
    limits = np.iinfo(part.dtype)
    return spaces.Box(limits.min, limits.max, part.shape, part.dtype.type)
