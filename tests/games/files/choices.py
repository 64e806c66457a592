"""Agents of any names with any number of actions; each is paid for its first one."""

import numpy as np
from pydantic import Field

from rookery.config.base import Settings
from rookery.games.base import Game, Observations, Outcome
from rookery.specs import AgentSpec, Part

SEEN = {"turn": Part((1,), np.dtype(np.float32))}


class ChoicesSettings(Settings):
    names: str = Field("a,a/b", description="The agents' names.")
    actions: int = Field(2, description="How many actions each has.")
    turns: int = Field(4, description="Turns of an episode.")
    reward: float = Field(1.0, description="What the first action brings.")
    score: float = Field(1.0, description="What is reported for it.")


class Choices(Game):
    Settings = ChoicesSettings

    def __init__(self, settings, worlds, seed, first_world=0):
        super().__init__(settings, worlds, seed)
        actions = tuple(map(str, range(settings.actions)))
        names = settings.names.split(",")
        self.agents = tuple(AgentSpec(name, "one", SEEN, actions) for name in names)
        self._turn = np.zeros(1, np.int64)
        self._actions = np.zeros((worlds, len(names)), np.int64)

    def begin_turn(self):
        return (tuple(range(len(self.agents))),)

    @property
    def _is_closing(self):
        return self._turn[0] == self.settings.turns

    def observe(self, agents):
        seen = np.full((self.worlds, 1), self._turn[0], np.float32)
        active = np.full(self.worlds, not self._is_closing)
        return Observations(
            [{"turn": seen} for _ in agents], [active] * len(agents), [None] * len(agents)
        )

    def act(self, agents, actions):
        self._actions[:, list(agents)] = actions

    def end_turn(self):
        paid = (self._actions == 0) & (not self._is_closing)
        last = np.full(paid.shape, self._turn[0] == self.settings.turns - 1)
        self._turn[0] = 0 if self._is_closing else self._turn[0] + 1
        rewards, scores = self.settings.reward * paid, self.settings.score * paid
        return Outcome(rewards, np.zeros_like(last), last, scores)

    def snapshot(self):
        return {"turn": np.repeat(self._turn, self.worlds)}

    def restore(self, arrays):
        self._turn = arrays["turn"][:1].copy()
