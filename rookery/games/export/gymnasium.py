"""One seat of a game as a Gymnasium `Env`; players act for the other seats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from rookery.config.base import Settings
from rookery.errors import ConfigError
from rookery.games.base import Outcome
from rookery.games.export.pictures import FPS, HUMAN, check_mode, render, render_modes, show
from rookery.games.export.seats import (
    SeatedGame,
    checked_actions,
    checked_seed,
    first_info,
    seat_info,
)
from rookery.games.export.spaces import (
    action_mask,
    action_space,
    first_world,
    observation_space,
    observed,
)
from rookery.games.registry import Entry, MakePlayer
from rookery.specs import Array


class SeatEnv(gymnasium.Env[Any, Any]):
    """One seat of one world. A step is a turn, also while the agent is not active.

    In games whose agents act one after the other, the observation is what the agent
    observes at its place in the turn. The episode ends when the agent's own episode does.
    """

    def __init__(
        self,
        entry: Entry,
        settings: Settings,
        players: Sequence[str | MakePlayer | None],
        seed: int,
        render_mode: str | None = None,
    ) -> None:
        """Build the game; `players` has None for the seat itself."""
        self._seats = SeatedGame(entry, settings, players, 1, seed)
        game = self._seats.game.game
        check_mode(entry.name, game, render_mode)
        (self._index,) = self._seats.outside
        self.agent = self._seats.agents[self._index]
        """The agent in this seat: its id, role, parts and actions."""
        self.render_mode = render_mode
        self.metadata = {
            "name": entry.name,
            "render_modes": render_modes(game),
            "render_fps": FPS,
            "action_names": self.agent.action_names,
        }
        self.observation_space = observation_space(game, self.agent)
        self.action_space = action_space(self.agent)
        self._is_over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; return the observation and info.

        Args:
            seed: starts the game again with this seed; see `SeatedGame.restart`.
            options: ignored; games have settings instead.
        """
        super().reset(seed=None if seed is None else checked_seed(seed))
        self._seats.restart(seed)
        self._is_over = False
        self._print()
        return self._observation(), self._info()

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play a turn with an action for this seat."""
        if self._is_over:
            raise ConfigError("there is no episode to step: call reset() first.")
        array = checked_actions(action, (), f"the action of agent '{self.agent.id}' is")
        outcome = self._seats.play(np.array([[array]]))
        reward, terminated, truncated = (
            values[0, self._index].item()
            for values in (outcome.rewards, outcome.terminated, outcome.truncated)
        )
        self._is_over = terminated or truncated
        self._print()
        return self._observation(), reward, terminated, truncated, self._info(outcome)

    def action_masks(self) -> Array:
        """Return which actions are legal now, (actions,) bool; for sb3-contrib."""
        mask = action_mask(self._seats.observations[self._index])
        return np.ones(self.agent.num_actions, bool) if mask is None else mask[0] == 1

    def render(self) -> Any:
        """Return the world as the render mode says."""
        return render(self._seats.game, self.render_mode)

    def close(self) -> None:
        """Close the game."""
        self._seats.close()

    def _observation(self) -> Any:
        return first_world(observed(self.agent, self._seats.observations[self._index]))

    def _info(self, outcome: Outcome | None = None) -> dict[str, Any]:
        return first_info(seat_info(self._seats, self._index, outcome))

    def _print(self) -> None:
        if self.render_mode == HUMAN:
            print(show(self._seats.game), end="\n\n")
