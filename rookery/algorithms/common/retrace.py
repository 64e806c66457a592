"""Retrace(λ) (Munos et al., 2016) for a greedy policy.

A *path* is a transition and the agent's own rows that followed it, up to `n_step` of them
or to the end of the episode or of the window. Each row of a path is an *end* from which the
target can bootstrap, so all of them are read. Ends beyond the path have weight 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.common.batches import PassDraws, StackedBatch, stack_masks
from rookery.replay.buffer import Batch, ReplayReader
from rookery.specs import Array

PER_TRANSITION = ("seen", "actions", "legal")
"""Fields of `Paths` with one entry per transition; the others have one per end."""


@dataclass(frozen=True)
class Paths(Batch):
    """Transitions with what followed.

    `returns`, `discounts` and `next_…` have (transitions × ends) entries.
    """

    taken: Array
    """(transitions × ends): the action that was taken there."""
    continues: Array
    """(transitions × ends) bool: whether the path continues from there."""

    def part(self, start: int, stop: int) -> Paths:
        """Return a view of some of the transitions."""
        ends = len(self.taken) // len(self.actions)

        def view(name: str, value: Array | dict[str, Array] | None) -> object:
            if isinstance(value, dict):
                return {key: view(name, array) for key, array in value.items()}
            each = 1 if name in PER_TRANSITION else ends
            return None if value is None else value[start * each : stop * each]

        parts = {f.name: view(f.name, getattr(self, f.name)) for f in fields(self)}
        return Paths(**parts)  # type: ignore[arg-type]


@dataclass
class StackedPaths(StackedBatch):
    """The paths of a group.

    `returns`, `discounts` and `next_legal` are (agents, batch × ends, …).
    """

    taken: Tensor
    """(agents, batch, ends)."""
    continues: Tensor
    """(agents, batch, ends) bool."""


def paths_of(reader: ReplayReader, transitions: Array, ends: int) -> Paths:
    """Return the paths that begin with some transitions, from a reader of single steps."""
    shape = (len(transitions), ends)
    turns, continues = np.zeros(shape, np.int64), np.zeros(shape, bool)
    returns, discounts = np.zeros((2, *shape), np.float32)
    path_return = np.zeros(len(transitions), np.float32)
    path_discount = np.ones(len(transitions), np.float32)
    current = transitions
    for end in range(ends):
        gains, discount = reader.outcomes(*reader.opening(current))
        path_return = path_return + path_discount * gains
        path_discount = path_discount * discount
        turns[:, end] = reader.closes(current)
        returns[:, end], discounts[:, end] = path_return, path_discount
        current, continues[:, end] = _next_transitions(reader, current)
    continues[:, -1] = False
    opened, worlds = reader.opening(transitions)
    rows = (turns.ravel(), np.repeat(worlds, ends))
    masked = "legal" in reader.rows.columns
    return Paths(
        reader.observations(opened, worlds),
        reader.observations(*rows),
        reader.at("action", opened, worlds),
        returns.ravel(),
        discounts.ravel(),
        reader.at("legal", opened, worlds) if masked else None,
        reader.at("legal", *rows) if masked else None,
        reader.at("action", *rows),
        continues.ravel(),
    )


def _next_transitions(reader: ReplayReader, transitions: Array) -> tuple[Array, Array]:
    """Return the transitions that open where others close, and whether there is one.

    Where there is none, the same transition is returned.
    """
    following = reader.closes(transitions) * reader.worlds + transitions % reader.worlds
    indices = np.searchsorted(reader.usable, following)
    exists = reader.usable[np.minimum(indices, len(reader.usable) - 1)] == following
    return np.where(exists, following, transitions), exists


def stack_paths(
    batches: Sequence[Batch | None],
    passes: Sequence[PassDraws],
    agent: Agent,
    factors: Sequence[float],
) -> list[StackedBatch]:
    """Return one stacked batch of paths per pass, as `stack_batches` does."""
    size = agent.settings.batch_size
    return [
        _stack(
            draws,
            [batch and batch.part(k * size, (k + 1) * size) for batch in batches],
            agent,
            factors,
        )
        for k, draws in enumerate(passes)
    ]


def _stack(
    draws: PassDraws, paths: list[Batch | None], agent: Agent, factors: Sequence[float]
) -> StackedPaths:
    agents, size, ends = len(paths), agent.settings.batch_size, agent.settings.n_step
    shape = (agents, size * ends)
    actions, taken = np.zeros((agents, size), np.int64), np.zeros(shape, np.int64)
    returns, discounts = np.zeros((2, *shape), np.float32)
    continues = np.zeros(shape, bool)
    for i, path in enumerate(paths):
        if path is None:
            continue
        assert isinstance(path, Paths)
        actions[i], taken[i], continues[i] = path.actions, path.taken, path.continues
        returns[i], discounts[i] = path.returns * factors[i], path.discounts
    legal = stack_masks(
        [path.legal if path else None for path in paths], (1, agents, size), agent
    )
    next_legal = stack_masks(
        [path.next_legal if path else None for path in paths], (1, *shape), agent
    )
    return StackedPaths(
        draws,
        paths,
        torch.ones(agents, size),
        torch.from_numpy(actions),
        torch.from_numpy(returns),
        torch.from_numpy(discounts),
        None if legal is None else legal[0],
        None if next_legal is None else next_legal[0],
        torch.from_numpy(taken).view(agents, size, ends),
        torch.from_numpy(continues).view(agents, size, ends),
    )


def retrace_shares(agrees: Tensor, decay: float) -> Tensor:
    """Return the weight of each end of a path in its target, (…, ends); they sum to 1.

    Retrace weights what follows a row by c = λ·min(1, π/μ). The policy learned, π, is
    greedy, so c is λ where the best action was taken and 0 elsewhere. The target then
    bootstraps from an end with weight 1 − c and continues with weight c: all the way to
    the first end where the best action was not taken, or the path stops.

    Args:
        agrees: (…, ends) whether the path continues from there with the best action.
        decay: λ.
    """
    c = agrees.float() * decay
    reached = torch.cumprod(c, dim=-1).roll(1, dims=-1)
    reached[..., 0] = 1.0
    return reached * (1.0 - c)
