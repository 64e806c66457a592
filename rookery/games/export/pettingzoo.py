"""All seats of a game as a PettingZoo `ParallelEnv`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.config.base import Settings
from rookery.errors import ConfigError, nearest
from rookery.games.base import Outcome
from rookery.games.export.pictures import FPS, HUMAN, check_mode, render, render_modes, show
from rookery.games.export.seats import SeatedGame, checked_actions, first_info, seat_info
from rookery.games.export.spaces import (
    MASK,
    action_mask,
    action_space,
    first_world,
    mask_space,
    observation_space,
    observed,
)
from rookery.games.registry import Entry
from rookery.specs import AgentSpec

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "hide")

from gymnasium import spaces
from pettingzoo import ParallelEnv

ByAgent = dict[str, Any]


class GameParallelEnv(ParallelEnv[str, Any, int]):  # type: ignore[misc]
    """One world of a game, with all seats played from outside.

    A step is a turn. Agents have their Rookery ids; the names of their actions are in
    `metadata["action_names"]`. An agent that is not active in a turn, for example because
    it was zapped, stays in `agents` and its action is ignored; its info says so. An agent
    whose episode has ended leaves `agents`.
    """

    def __init__(
        self, entry: Entry, settings: Settings, seed: int, render_mode: str | None = None
    ) -> None:
        game = entry.build_guarded(settings, 1, seed)
        game.close()
        check_mode(entry.name, game.game, render_mode)
        self._seats = SeatedGame(entry, settings, [None] * len(game.agents), 1, seed)
        self._specs = {spec.id: spec for spec in game.agents}
        self.possible_agents = list(self._specs)
        self.agents: list[str] = []
        self.render_mode = render_mode
        self.metadata: dict[str, Any] = {
            "name": entry.name,
            "render_modes": render_modes(game.game),
            "render_fps": FPS,
            "is_parallelizable": True,
            "action_names": {i: spec.action_names for i, spec in self._specs.items()},
        }
        self.observation_spaces: dict[str, spaces.Space[Any]] = {
            i: with_mask(spec, observation_space(game.game, spec))
            for i, spec in self._specs.items()
        }
        self.action_spaces = {i: action_space(spec) for i, spec in self._specs.items()}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the action space of an agent."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[ByAgent, ByAgent]:
        """Start an episode; return observations and infos.

        Args:
            seed: starts the game again with this seed; see `SeatedGame.restart`.
            options: ignored; games have settings instead.
        """
        self._seats.restart(seed)
        self.agents = list(self.possible_agents)
        self._print()
        return self._observe(self.agents), {i: self._info(i) for i in self.agents}

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Play a turn.

        Args:
            actions: by agent, for all in `agents`; agents that are not active may be
                left out.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that
            were in `agents` before.
        """
        if not self.agents and not actions:
            return {}, {}, {}, {}, {}
        outcome = self._seats.play(np.array([self._joint(actions)]))
        acted = self.agents
        ends = outcome.terminated[0], outcome.truncated[0]
        rewards, terminated, truncated = (
            {i: values[self._index(i)].item() for i in acted}
            for values in (outcome.rewards[0], *ends)
        )
        self.agents = [i for i in acted if not (terminated[i] or truncated[i])]
        infos = {i: self._info(i, outcome) for i in acted}
        self._print()
        return self._observe(acted), rewards, terminated, truncated, infos

    def render(self) -> Any:
        """Return the world as the render mode says."""
        return render(self._seats.game, self.render_mode)

    def close(self) -> None:
        """Close the game."""
        self._seats.close()

    def _index(self, agent: str) -> int:
        return self.possible_agents.index(agent)

    def _joint(self, actions: Mapping[str, int]) -> list[int]:
        """Return one action per agent, 0 for agents that do not act."""
        absent = [i for i in actions if i not in self.agents]
        if absent:
            advice = nearest(str(absent[0]), self.agents)
            if not self.agents:
                advice = "the episode is over: call reset()."
            elif absent[0] in self.possible_agents:
                advice = "its episode has ended: give actions only for `agents`."
            raise ConfigError(f"there is an action for agent {absent[0]!r}: {advice}")
        joint = [0] * len(self.possible_agents)
        for i in self.agents:
            if i in actions:
                label = f"the action of agent '{i}' is"
                joint[self._index(i)] = int(checked_actions(actions[i], (), label))
            elif self._seats.observations[self._index(i)].active[0]:
                raise ConfigError(
                    f"there is no action for agent '{i}': give one for each of `agents`."
                )
        return joint

    def _observe(self, agents: list[str]) -> ByAgent:
        return {i: self._observation(i) for i in agents}

    def _observation(self, agent: str) -> Any:
        spec, observation = self._specs[agent], self._seats.observations[self._index(agent)]
        parts = first_world(observed(spec, observation))
        mask = action_mask(observation)
        return parts if mask is None else {"observation": parts, MASK: mask[0]}

    def _info(self, agent: str, outcome: Outcome | None = None) -> dict[str, Any]:
        index = self._index(agent)
        return first_info(seat_info(self._seats, index, outcome))

    def _print(self) -> None:
        if self.render_mode == HUMAN:
            print(show(self._seats.game), end="\n\n")


def with_mask(spec: AgentSpec, space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space with an action mask beside it, as PettingZoo has it, if needed."""
    if not spec.masked:
        return space
    return spaces.Dict({"observation": space, MASK: mask_space(spec)})
