"""One form for all foreign games: that of PettingZoo's parallel games.

PettingZoo games in which all agents act at once have it already. The three adapters here
bring the others into it: PettingZoo games in which one agent moves at a time, Gymnasium
games whose spaces are tuples or lists, and copies of a Gymnasium game for one agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rookery.specs import Array

ByAgent = dict[Any, Any]
"""Agent name to observation, reward, flag, action or info."""


class AdapterError(Exception):
    """A foreign game returned something that cannot be used.

    It knows neither the game's path nor the world; `ForeignGame` and `ForeignWorld` add
    them.
    """

    def __init__(self, fault: str, remedy: str) -> None:
        super().__init__(fault)
        self.fault, self.remedy = fault, remedy


class ParallelGame(Protocol):
    """What a `ForeignWorld` plays; see PettingZoo's `ParallelEnv`.

    A game in which one agent moves at a time also has `acting`, the agents whose move is
    next; in all others every agent in `agents` acts in every turn.
    """

    possible_agents: list[Any]
    metadata: dict[str, Any]

    @property
    def agents(self) -> list[Any]:
        """The agents that are present and have not ended."""

    def observation_space(self, agent: Any) -> Any:
        """Return the observation space of an agent."""

    def action_space(self, agent: Any) -> Any:
        """Return the action space of an agent."""

    def reset(self, seed: int) -> tuple[ByAgent, ByAgent]:
        """Start an episode; return observations and infos."""

    def step(self, actions: ByAgent) -> tuple[ByAgent, ...]:
        """Play a turn; return observations, rewards, terminations, truncations, infos."""

    def render(self) -> Array:
        """Return an image, (height, width, 3)."""

    def close(self) -> None:
        """Free what the game holds."""


class AecAdapter:
    """A PettingZoo `AECEnv`: one agent moves at a time, and each move is a turn.

    The game decides after every move which agent is next. All agents observe every turn,
    also those that wait.
    """

    def __init__(self, copy: Any) -> None:
        self._copy = copy
        self.possible_agents: list[Any] = list(copy.possible_agents)
        self.observation_space, self.action_space = (
            copy.observation_space,
            copy.action_space,
        )
        self.metadata = copy.metadata

    @property
    def agents(self) -> list[Any]:
        return list(self._copy.agents)

    @property
    def acting(self) -> tuple[Any, ...]:
        """The agent that moves next."""
        return (self._copy.agent_selection,)

    def reset(self, seed: int) -> tuple[ByAgent, ByAgent]:
        self._copy.reset(seed=seed)
        self._remove_ended()
        return self._observe(self._copy.agents), {}

    def step(self, actions: ByAgent) -> tuple[ByAgent, ...]:
        """Play one move; `actions` has exactly one entry."""
        (action,) = actions.values()
        before = list(self._copy.agents)
        self._copy.step(action)
        rewards = dict(self._copy.rewards)
        ends = dict(self._copy.terminations), dict(self._copy.truncations)
        leaving = [agent for agent in before if any(flags.get(agent) for flags in ends)]
        last = self._observe(leaving)
        self._remove_ended()
        # Masks are those of the next mover, so observe after ended agents were removed.
        return last | self._observe(self._copy.agents), rewards, *ends, {}

    def render(self) -> Array:
        return self._copy.render()

    def close(self) -> None:
        self._copy.close()

    def _observe(self, agents: list[Any]) -> ByAgent:
        return {agent: self._copy.observe(agent) for agent in agents}

    def _remove_ended(self) -> None:
        """Make the empty move that PettingZoo expects of every agent that has ended."""
        copy = self._copy
        while copy.agents and (
            copy.terminations.get(copy.agent_selection)
            or copy.truncations.get(copy.agent_selection)
        ):
            copy.step(None)


class TupleAdapter:
    """A Gymnasium game of several agents whose spaces are tuples or lists.

    Spaces, observations and actions have one entry per agent; the agents are called 0, 1,
    …. A single reward or end flag is every agent's.
    """

    def __init__(self, copy: Any) -> None:
        self._copy = copy
        self._actions = _entries(copy.action_space)
        self._observations = _entries(copy.observation_space)
        if len(self._observations) != len(self._actions):
            raise AdapterError(
                f"has {len(self._actions)} action spaces and {len(self._observations)} "
                "observation spaces",
                "give both one entry per agent",
            )
        self.possible_agents = [str(i) for i in range(len(self._actions))]
        self.agents: list[str] = []
        self.metadata = copy.metadata

    def observation_space(self, agent: str) -> Any:
        return self._observations[int(agent)]

    def action_space(self, agent: str) -> Any:
        return self._actions[int(agent)]

    def reset(self, seed: int) -> tuple[ByAgent, ByAgent]:
        observations, _ = _check_reset(self._copy.reset(seed=seed))
        self.agents = list(self.possible_agents)
        return self._by_agent("observations", observations), {}

    def step(self, actions: ByAgent) -> tuple[ByAgent, ...]:
        """Play a turn; agents that have ended take their first action."""
        joint = [
            actions.get(agent, int(space.start))
            for agent, space in zip(self.possible_agents, self._actions, strict=True)
        ]
        observations, *others, _ = _check_step(self._copy.step(joint))
        rewards, terminated, truncated = (
            [value] * len(joint) if np.ndim(value) == 0 else value for value in others
        )
        results = (
            self._by_agent("observations", observations),
            self._by_agent("rewards", rewards),
            self._by_agent("terminated", terminated),
            self._by_agent("truncated", truncated),
        )
        ended = {agent for flags in results[2:] for agent, flag in flags.items() if flag}
        self.agents = [agent for agent in self.agents if agent not in ended]
        return *results, {}

    def render(self) -> Array:
        return self._copy.render()

    def close(self) -> None:
        self._copy.close()

    def _by_agent(self, name: str, values: Any) -> ByAgent:
        is_list = isinstance(values, Sequence | np.ndarray)
        if not is_list or len(values) != len(self.possible_agents):
            actual = f"{len(values)} {name}" if is_list else f"{name} as a {_type(values)}"
            raise AdapterError(
                f"the game returned {actual} for {len(self.possible_agents)} agents",
                "return a list or tuple with one entry per agent",
            )
        return dict(zip(self.possible_agents, values, strict=True))


class CopiesAdapter:
    """Copies of a Gymnasium game for one agent, side by side; agents are called 0, 1, ….

    Copies are independent: each is its own object with its own seeds. An agent whose copy
    has ended waits until all have ended, and then all restart together, so a copy depends
    on nothing but its number, the seed and its actions.
    """

    def __init__(self, copies: Sequence[Any]) -> None:
        self._copies = {str(i): copy for i, copy in enumerate(copies)}
        self.possible_agents = list(self._copies)
        self.agents: list[str] = []
        self.metadata = copies[0].metadata

    def observation_space(self, agent: str) -> Any:
        return self._copies[agent].observation_space

    def action_space(self, agent: str) -> Any:
        return self._copies[agent].action_space

    def reset(self, seed: int) -> tuple[ByAgent, ByAgent]:
        self.agents = list(self.possible_agents)
        observations = {}
        for i, agent in enumerate(self.agents):
            key = np.random.SeedSequence(seed, spawn_key=(i,)).generate_state(1)[0]
            observations[agent], _ = _check_reset(self._copies[agent].reset(seed=int(key)))
        return observations, {}

    def step(self, actions: ByAgent) -> tuple[ByAgent, ...]:
        """Play a turn of the copies that have not ended."""
        results: tuple[ByAgent, ...] = ({}, {}, {}, {})
        for agent, action in actions.items():
            values = _check_step(self._copies[agent].step(action))
            for result, value in zip(results, values, strict=False):
                result[agent] = value
        _, _, terminated, truncated = results
        self.agents = [a for a in actions if not (terminated[a] or truncated[a])]
        return *results, {}

    def render(self) -> Array:
        return np.concatenate([copy.render() for copy in self._copies.values()], axis=1)

    def close(self) -> None:
        for copy in self._copies.values():
            copy.close()


def _type(value: Any) -> str:
    return type(value).__name__


def _entries(space: Any) -> list[Any]:
    return list(getattr(space, "spaces", space))


def _check_reset(result: Any) -> tuple[Any, Any]:
    """Return the result of a Gymnasium game's reset(), which must be a pair."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise AdapterError("reset() returned no pair", "return observation, info")
    return result


def _check_step(result: Any) -> tuple[Any, ...]:
    """Return the result of a Gymnasium game's step(), which must be five values."""
    if not isinstance(result, tuple) or len(result) != 5:
        raise AdapterError(
            "step() did not return five values",
            "return observation, reward, terminated, truncated, info",
        )
    return result
