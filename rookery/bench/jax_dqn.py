"""Stacked double DQN as a competent JAX user writes it: a peer of the stacked learner.

One update of one agent is a pure function; `vmap` makes it one of all agents and `jit`
compiles it. The replay is on the device, and batches are drawn inside by JAX's own random
numbers and gathers. The state is donated, so that it is updated in place. It runs as a
`Contender`, in any interpreter that has jax and optax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from rookery.bench.dqn_task import UpdateTask
from rookery.bench.measure import rate

ONE, SCANNED = "one update per call", "scanned"
SCAN_LENGTH = 16
"""Updates in a scanned call: as many as Rookery draws ahead at most."""
Parameters = list[tuple[jax.Array, jax.Array]]
Update = Callable[["AgentState", "Replay"], tuple["AgentState", jax.Array]]


class Replay(NamedTuple):
    """An agent's rows, one turn of all worlds after the other."""

    observations: jax.Array
    actions: jax.Array
    rewards: jax.Array


class AgentState(NamedTuple):
    """What an update changes."""

    weights: Parameters
    target: Parameters
    optimizer: Any
    key: jax.Array


def prepare(task: Mapping[str, Any]) -> dict[str, Callable[[], float]]:
    """Return both ways of measuring, compiled and warm."""
    stacked = Stacked(UpdateTask(**task))
    measurements: dict[str, Callable[[], float]] = {
        ONE: partial(stacked.rate, stacked.update, 1),
        SCANNED: partial(stacked.rate, stacked.updates, SCAN_LENGTH),
    }
    for measure in measurements.values():
        measure()
    return measurements


class Stacked:
    """All agents in one computation."""

    def __init__(self, task: UpdateTask) -> None:
        self._task = task
        transform = optax.chain(
            optax.clip_by_global_norm(task.clip), optax.adam(task.learning_rate)
        )
        update = jax.vmap(partial(update_agent, task=task, transform=transform))
        self.update = jax.jit(update, donate_argnums=0)
        self.updates = jax.jit(partial(scan, update), donate_argnums=0)
        self.replay = stack_replays(task)
        keys = jax.random.split(jax.random.PRNGKey(0), task.agents)
        self.state = jax.vmap(partial(initial, task=task, transform=transform))(keys)

    def rate(self, update: Update, length: int) -> float:
        """Return updates of an agent per second."""
        calls = -(-self._task.updates // length)

        def work() -> None:
            for _ in range(calls):
                self.state, _ = update(self.state, self.replay)
            jax.block_until_ready(self.state)  # type: ignore[no-untyped-call]

        return rate(work, calls * length * self._task.agents)


def stack_replays(task: UpdateTask) -> Replay:
    """Return the replays of all agents on the device, (agents, rows, …)."""
    rows = [task.rows(agent) for agent in range(task.agents)]

    def stacked(column: str, *shape: int) -> jax.Array:
        flat = [agent[column].reshape(-1, *shape) for agent in rows]
        return jnp.asarray(np.stack(flat))

    return Replay(stacked("observation", task.inputs), stacked("action"), stacked("reward"))


def initial(
    key: jax.Array, task: UpdateTask, transform: optax.GradientTransformation
) -> AgentState:
    """Return an agent's first state."""
    sizes = [task.inputs, *[task.width] * task.layers, task.actions]
    key, *keys = jax.random.split(key, len(sizes))
    weights = [
        (jax.random.normal(k, (n, m)) / np.sqrt(n), jnp.zeros(m))
        for k, (n, m) in zip(keys, pairwise(sizes), strict=True)
    ]
    # Copied, since donated arrays must not share memory.
    target = jax.tree.map(jnp.copy, weights)
    return AgentState(weights, target, transform.init(weights), key)


def action_values(weights: Parameters, hidden: jax.Array) -> jax.Array:
    """Return (batch, actions)."""
    for weight, bias in weights[:-1]:
        hidden = jax.nn.relu(hidden @ weight + bias)
    weight, bias = weights[-1]
    return hidden @ weight + bias


def update_agent(
    state: AgentState,
    replay: Replay,
    task: UpdateTask,
    transform: optax.GradientTransformation,
) -> tuple[AgentState, jax.Array]:
    """Draw a batch and update one agent; return its new state and the loss."""
    key, drawing = jax.random.split(state.key)
    opened = jax.random.randint(drawing, (task.batch,), 0, task.turns * task.worlds)
    observations = replay.observations[opened]
    next_observations = replay.observations[opened + task.worlds]
    actions, rewards = replay.actions[opened], replay.rewards[opened]
    best = action_values(state.weights, next_observations).argmax(axis=1)
    next_values = pick(action_values(state.target, next_observations), best)
    targets = rewards + task.discount * next_values

    def loss_of(weights: Parameters) -> jax.Array:
        values = pick(action_values(weights, observations), actions)
        return optax.huber_loss(values, targets).mean()

    loss, gradient = jax.value_and_grad(loss_of)(state.weights)
    changes, optimizer = transform.update(gradient, state.optimizer)
    weights = optax.apply_updates(state.weights, changes)
    target = optax.incremental_update(weights, state.target, task.target_rate)
    return AgentState(weights, target, optimizer, key), loss


def pick(values: jax.Array, actions: jax.Array) -> jax.Array:
    """Return the values of given actions, (batch,)."""
    return jnp.take_along_axis(values, actions[:, None], axis=1)[:, 0]


def scan(update: Update, state: AgentState, replay: Replay) -> tuple[AgentState, jax.Array]:
    """Make several updates in one call."""
    return lax.scan(lambda s, _: update(s, replay), state, None, length=SCAN_LENGTH)
