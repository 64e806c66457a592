"""Foreign games with unusual but legal features, chosen by settings.

Agents with odd names and observation spaces, agents that die, join late or never, illegal
actions, and episodes of a single turn. All randomness comes from the seed of `reset`.
"""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

NAMES = {
    "plain": ["a0", "a1", "a2", "a3"],
    "odd": ["b c.d", "a", "a/b", "[ü]*"],
}
Sees = Literal["vector", "grid", "dict", "scalar", "counts"]
Ends = Literal["terminated", "truncated", "either"]


def space_of(sees: str) -> spaces.Space[Any]:
    """Return the observation space of an agent."""
    vector = spaces.Box(-1, 1, (3,), np.float32)
    by_name: dict[str, spaces.Space[Any]] = {
        "vector": vector,
        "grid": spaces.Box(0, 255, (5, 4, 3), np.uint8),
        "dict": spaces.Dict(place=spaces.Box(-9, 9, (2, 2), np.float64), clock=vector),
        "scalar": spaces.Box(-1, 1, (), np.float32),
        "counts": spaces.MultiDiscrete([3, 5]),
    }
    return by_name[sees]


class Herd(ParallelEnv):
    """All agents act at once, and the first action decides the rewards."""

    metadata = {"name": "herd"}

    def __init__(
        self,
        size: int = 3,
        length: int = 6,
        names: Literal["plain", "odd"] = "plain",
        sees: Sees = "vector",
        ends: Ends = "either",
        deaths: bool = False,
    ) -> None:
        self.possible_agents = NAMES[names][:size]
        self.length, self.ends, self.deaths = length, ends, deaths
        self._space = space_of(sees)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same space for all agents."""
        return self._space

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return two or three actions, depending on the agent."""
        return spaces.Discrete(2 + self.possible_agents.index(agent) % 2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode; with deaths, the last agent joins in the second turn."""
        self.random = np.random.default_rng(seed)
        self._space.seed(int(self.random.integers(2**31)))
        self.turn = 0
        late = self.deaths and len(self.possible_agents) > 2
        self.agents = self.possible_agents[:-1] if late else list(self.possible_agents)
        return {agent: self._space.sample() for agent in self.agents}, {}

    def step(self, actions: dict[str, int]) -> Any:
        """Reward agreement with the first agent; end as the settings say."""
        self.turn += 1
        agents = list(self.agents)
        if self.deaths and self.turn == 1 and len(agents) < len(self.possible_agents):
            agents.append(self.possible_agents[-1])
        first = next(iter(actions.values()))
        rewards = {
            a: float(actions.get(a) == first) - 0.5 + self.random.random() for a in agents
        }
        over = self.turn >= self.length
        truncated = over and (
            self.ends == "truncated"
            or (self.ends == "either" and self.random.random() < 0.5)
        )
        dead = {a: over and not truncated for a in agents}
        if self.deaths and self.turn == 2:
            dead[agents[0]] = True
        cut = {a: truncated and not dead[a] for a in agents}
        observations = {agent: self._space.sample() for agent in agents}
        self.agents = [a for a in agents if not (dead[a] or cut[a])]
        return observations, rewards, dead, cut, {agent: {} for agent in agents}


class Queue(AECEnv):
    """Agents move in turn and cannot repeat the previous move."""

    metadata = {"name": "queue", "is_parallelizable": False}

    def __init__(
        self, size: int = 2, length: int = 7, names: Literal["plain", "odd"] = "plain"
    ) -> None:
        self.possible_agents, self.length = NAMES[names][:size], length

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of the last move and of the legal moves."""
        return spaces.Dict(
            observation=spaces.Box(0, 1, (4,), np.float32),
            action_mask=spaces.Box(0, 1, (3,), np.int8),
        )

    def action_space(self, agent: str) -> spaces.Discrete:
        """Three moves."""
        return spaces.Discrete(3)

    def observe(self, agent: str) -> Any:
        """Return the last move, the progress of the game and the legal moves."""
        board = np.zeros(4, np.float32)
        mask = np.ones(3, np.int8)
        if self.last is not None:
            board[self.last], mask[self.last] = 1, 0
        board[3] = self.moves / self.length
        return {"observation": board, "action_mask": mask}

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        """Start an episode; the seed decides the first illegal move and the first agent."""
        self.random = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.moves, self.last = 0, int(self.random.integers(3))
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[int(self.random.integers(len(self.agents)))]

    def step(self, action: int) -> None:
        """Reward the agent for its move, and the next agent a little."""
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[mover] = 0
        self._clear_rewards()
        following = self.agents[(self.agents.index(mover) + 1) % len(self.agents)]
        self.rewards[mover] = float(action) - self.random.random()
        self.rewards[following] += 0.25
        self.moves, self.last = self.moves + 1, int(action)
        if self.moves >= self.length:
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = following
        self._accumulate_rewards()
        if self.moves >= self.length:
            self._deads_step_first()


class Solo(gymnasium.Env):
    """One agent, rewarded for pointing at the largest of four numbers."""

    metadata = {"render_modes": []}

    def __init__(self, length: int = 5) -> None:
        self.length = length
        self.observation_space = spaces.Box(0, 1, (4,), np.float32)
        self.action_space = spaces.Discrete(4, start=2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self.turn = 0
        return self._observe(), {}

    def _observe(self) -> Any:
        self.numbers = self.np_random.random(4, dtype=np.float32)
        return self.numbers

    def step(self, action: int) -> Any:
        """Reward the index of the largest number."""
        self.turn += 1
        reward = float(self.numbers.argmax() == action - 2)
        over = self.turn >= self.length
        return self._observe(), reward, over and self.np_random.random() < 0.5, over, {}


def herd(
    size: int = 3,
    length: int = 6,
    names: Literal["plain", "odd"] = "plain",
    sees: Sees = "vector",
    ends: Ends = "either",
    deaths: bool = False,
) -> Herd:
    """Return a game in which all act at once."""
    return Herd(size, length, names, sees, ends, deaths)


def queue(
    size: int = 2, length: int = 7, names: Literal["plain", "odd"] = "plain"
) -> Queue:
    """Return a game in which agents move in turn."""
    return Queue(size, length, names)
