"""One running copy of a foreign game.

A `ForeignWorld` calls the foreign game, keeps track of which agents are present, have
ended and act next, and turns every way in which a game can break PettingZoo's own rules
into a `GameError` of one line.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from rookery.errors import GameError
from rookery.games.adapters.parallel import AdapterError, AecAdapter, ParallelGame
from rookery.games.adapters.spaces import AgentSpaces
from rookery.games.locate import locate
from rookery.specs import Array

STEP = ("observations", "rewards", "terminations", "truncations", "infos")


def wrap_error(path: str, method: str, world: int, error: Exception) -> GameError:
    """Return the `GameError` for an exception that a foreign game raised."""
    return GameError(
        f"{path} raised in {method} in world {world}: {locate(error)}: check the game's "
        "settings; if they are right, the mistake is in the game."
    )


class ForeignWorld:
    """One copy of a foreign game: which agents live and act, and their observations."""

    def __init__(
        self,
        path: str,
        number: int,
        copy: ParallelGame,
        agents: Sequence[AgentSpaces],
        is_drawable: bool = False,
    ) -> None:
        self.path, self.number, self.copy = path, number, copy
        self.is_drawable, self.was_reset = is_drawable, False
        self.episode = self.turn = 0
        self.live: list[AgentSpaces] = []
        """Agents that are present and have not ended; empty while the world closes."""
        self.acting: list[AgentSpaces] = []
        self.observations: Mapping[Any, Any] = {}
        self.fresh: list[AgentSpaces] = []
        """Agents whose row is to be written from `observations`."""
        self.gone: list[AgentSpaces] = []
        """Agents whose row is to be emptied, one turn after their last observation."""
        self._leaving: list[AgentSpaces] = []
        self._listed: list[Any] = []
        self._ended: set[Any] = set()
        self._agents = {agent.name: agent for agent in agents}

    def reset(self, episode: int, seed: int) -> None:
        """Start an episode."""
        try:
            result = self.copy.reset(seed=seed)
        except AdapterError as error:
            raise self._error(error.fault, error.remedy) from None
        except Exception as error:
            raise wrap_error(self.path, "reset()", self.number, error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._error("reset() returned no pair", "return observations, infos")
        self.episode, self.turn, self.was_reset = episode, 0, True
        self.live, self._leaving, self._ended = [], [], set()
        self.observations = result[0]
        self._admit(lingering=set())
        if not self.live:
            raise self._error("reset() left `agents` empty", "list the agents there")
        for agent in self.live:
            self._check_actions(agent)
        self.fresh = self.live
        self.gone = [agent for agent in self._agents.values() if agent not in self.live]

    def step(self, actions: list[int], outcome: tuple[Array, Array, Array]) -> None:
        """Play a turn; fill in rewards, terminated and truncated (one per agent)."""
        joint = {agent.name: actions[agent.index] + agent.start for agent in self.acting}
        try:
            result = self.copy.step(joint)
        except AdapterError as error:
            raise self._error(error.fault, error.remedy) from None
        except Exception as error:
            raise wrap_error(self.path, "step()", self.number, error) from error
        if not isinstance(result, tuple) or len(result) != len(STEP):
            raise self._error(
                "step() did not return five values", f"return {', '.join(STEP)}"
            )
        self.observations, rewards, terminations, truncations, _ = result
        self.turn += 1
        self.fresh, self.gone, self._leaving = self.live, self._leaving, []
        is_ending = False
        try:
            for agent in self.live:
                name = agent.name
                outcome[0][agent.index] = rewards[name]
                if terminations[name] or truncations[name]:
                    is_ending = True
                _ = self.observations[name]
        except (KeyError, TypeError, ValueError) as error:
            raise self._explain(result) from error
        if is_ending or self.copy.agents != self._listed:
            self._update_agents(terminations, truncations, outcome)
        elif isinstance(self.copy, AecAdapter):
            self.acting = self._movers(self.copy)

    def draw(self) -> Array:
        """Return an image of the world as it is now."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as a missing font
                image = self.copy.render()
        except Exception as error:
            raise wrap_error(self.path, "render()", self.number, error) from error
        if not isinstance(image, np.ndarray) or image.ndim != 3:
            raise self._error("render() returned no image", "return (height, width, 3)")
        return image

    def _update_agents(
        self,
        terminations: Mapping[Any, Any],
        truncations: Mapping[Any, Any],
        outcome: tuple[Array, Array, Array],
    ) -> None:
        """Remove agents that ended, and admit those that joined."""
        before = self.live
        for agent in before:
            ends = bool(terminations[agent.name]), bool(truncations[agent.name])
            if any(ends):
                outcome[1][agent.index], outcome[2][agent.index] = ends
                self._leaving.append(agent)
                self._ended.add(agent.name)
            elif agent.name not in self.copy.agents:
                raise self._error(
                    f"agent '{agent.name}' left `agents`",
                    "terminate or truncate it first",
                )
        self.live = [agent for agent in before if agent.name not in self._ended]
        self._admit({n for n in self._ended if terminations.get(n) or truncations.get(n)})
        self.fresh = before + [agent for agent in self.live if agent not in before]
        if not self.live:
            # An episode ends for all agents, including those that never joined.
            absent = [a for name, a in self._agents.items() if name not in self._ended]
            for agent in absent:
                outcome[2][agent.index] = True

    def _admit(self, lingering: set[Any]) -> None:
        """Add agents new in `agents`; `lingering` have ended and may still be listed."""
        self._listed = list(self.copy.agents)
        for name in self._listed:
            if name not in self._agents:
                known = ", ".join(str(name) for name in self._agents)
                raise self._error(
                    f"agent '{name}' appeared", f"`possible_agents` has only {known}"
                )
            agent = self._agents[name]
            if name in self._ended:
                if name not in lingering:
                    raise self._error(
                        f"agent '{name}' came back after it had ended",
                        "end the episode first, or do not end the agent",
                    )
            elif name not in self.observations:
                raise self._missing("observation", agent)
            elif agent not in self.live:
                self.live = [*self.live, agent]
        self.acting = self.live
        if isinstance(self.copy, AecAdapter) and self.live:
            self.acting = self._movers(self.copy)

    def _movers(self, copy: AecAdapter) -> list[AgentSpaces]:
        """Return the agents that move next, which must be present."""
        movers = [self._agents.get(name) for name in copy.acting]
        present = [agent for agent in movers if agent is not None and agent in self.live]
        if len(present) < len(movers):
            raise self._error(
                f"the next move is that of {copy.acting[0]!r}, which is not in `agents`",
                "select an agent that is listed there and has not ended",
            )
        return present

    def _check_actions(self, agent: AgentSpaces) -> None:
        space = self.copy.action_space(agent.name)
        actual = getattr(space, "n", None), getattr(space, "start", None)
        if actual != (agent.spec.num_actions, agent.start):
            raise self._error(
                f"the action space of agent '{agent.name}' changed to {space}",
                f"keep its {agent.spec.num_actions} actions",
            )

    def _explain(self, result: tuple[Any, ...]) -> GameError:
        """Return the error for a result of step() that cannot be read."""
        for agent in self.live:
            for name, values in zip(STEP[:4], result, strict=False):
                if not isinstance(values, Mapping):
                    return self._error(
                        f"step() returned {name} that are not a dict",
                        "return a dict by agent",
                    )
                if agent.name not in values:
                    return self._missing(name.removesuffix("s"), agent)
            reward = result[1][agent.name]
            if not isinstance(reward, Real):
                return self._error(
                    f"the reward of agent '{agent.name}' is {reward!r}", "return a number"
                )
        return self._error(
            "step() returned terminations or truncations that are not bools",
            "return True or False for each agent",
        )

    def _missing(self, entry: str, agent: AgentSpaces) -> GameError:
        return self._error(
            f"there is no {entry} for agent '{agent.name}'",
            "return one for every agent in `agents`",
        )

    def _error(self, fault: str, remedy: str) -> GameError:
        return GameError(f"{self.path}, world {self.number}: {fault}: {remedy}.")
