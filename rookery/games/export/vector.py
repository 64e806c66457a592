"""One seat of many worlds of a game as a Gymnasium `VectorEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rookery.config.base import Settings
from rookery.errors import ConfigError
from rookery.games.base import Outcome
from rookery.games.export.pictures import FPS, HUMAN, check_mode, render, render_modes
from rookery.games.export.seats import SeatedGame, checked_actions, checked_seed, seat_info
from rookery.games.export.spaces import action_space, observation_space, observed
from rookery.games.registry import Entry, MakePlayer
from rookery.specs import Array


class SeatVectorEnv(VectorEnv[Any, Any, Array]):
    """One seat of `num_envs` worlds, which Rookery steps together.

    Sub-environment k is world k of the game. A world whose episode has ended restarts in
    the next step, whose action it ignores (`AutoresetMode.NEXT_STEP`): this is Rookery's
    closing turn. If the seat's episode ends before that of the other agents, the world
    restarts when theirs have ended, too; until then the seat is not active.
    """

    def __init__(
        self,
        entry: Entry,
        settings: Settings,
        players: Sequence[str | MakePlayer | None],
        num_envs: int,
        seed: int,
        render_mode: str | None = None,
    ) -> None:
        """Build the game; `players` has None for the seat itself."""
        self._seats = SeatedGame(entry, settings, players, num_envs, seed)
        game = self._seats.game.game
        if render_mode == HUMAN:
            raise ConfigError(
                "render_mode 'human' prints one world: use 'ansi' or 'rgb_array'."
            )
        check_mode(entry.name, game, render_mode)
        (self._index,) = self._seats.outside
        self.agent = self._seats.agents[self._index]
        """The agent in this seat: its id, role, parts and actions."""
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {
            "name": entry.name,
            "render_modes": [mode for mode in render_modes(game) if mode != HUMAN],
            "render_fps": FPS,
            "autoreset_mode": AutoresetMode.NEXT_STEP,
            "action_names": self.agent.action_names,
        }
        self.single_observation_space = observation_space(game, self.agent)
        self.single_action_space = action_space(self.agent)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._is_ready = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every world; return observations and infos.

        Args:
            seed: of the whole game, with which it starts again; see `SeatedGame.restart`.
            options: ignored, except that `reset_mask` is refused.
        """
        if options and "reset_mask" in options:
            raise ConfigError(
                "worlds restart by themselves in the step after their end "
                "(AutoresetMode.NEXT_STEP): leave out reset_mask."
            )
        if isinstance(seed, Sequence):
            raise ConfigError(
                f"seed is a list of {len(seed)}: give one integer, from which all worlds "
                "follow."
            )
        super().reset(seed=None if seed is None else checked_seed(seed))
        self._seats.restart(seed)
        self._is_ready = True
        return self._observation(), self._info()

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Play a turn in every world, with one action per world for this seat."""
        if not self._is_ready:
            raise ConfigError("there is no episode to step: call reset() first.")
        label = f"the actions of agent '{self.agent.id}' are"
        array = checked_actions(actions, (self.num_envs,), label)
        outcome = self._seats.play(array[:, None])
        rewards, terminated, truncated = (
            values[:, self._index].copy()
            for values in (outcome.rewards, outcome.terminated, outcome.truncated)
        )
        return self._observation(), rewards, terminated, truncated, self._info(outcome)

    def render(self) -> tuple[Any, ...]:
        """Return every world as the render mode says."""
        game = self._seats.game
        return tuple(render(game, self.render_mode, w) for w in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Close the game."""
        self._seats.close()

    def _observation(self) -> Any:
        return observed(self.agent, self._seats.observations[self._index])

    def _info(self, outcome: Outcome | None = None) -> dict[str, Any]:
        return with_masks(seat_info(self._seats, self._index, outcome), self.num_envs)


def with_masks(info: dict[str, Any], worlds: int) -> dict[str, Any]:
    """Return infos in Gymnasium's form: beside every key, which worlds have it (all)."""
    infos: dict[str, Any] = {}
    for key, value in info.items():
        infos[key] = with_masks(value, worlds) if isinstance(value, dict) else value
        infos[f"_{key}"] = np.ones(worlds, bool)
    return infos
