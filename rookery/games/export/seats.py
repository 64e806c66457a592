"""A game in which some seats are played from outside, and the others by players.

A turn of Rookery is observe, act, end; a step of Gymnasium and PettingZoo is act, end,
observe. So `SeatedGame` always waits in the middle of a turn, where the outside seats have
observed and are to act.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from rookery.config.base import Settings
from rookery.errors import ConfigError, GameError
from rookery.games.base import Outcome
from rookery.games.episodes import Episodes
from rookery.games.export.spaces import MASK, action_mask
from rookery.games.guard import GuardedGame
from rookery.games.loop import split
from rookery.games.player_guard import actions_of
from rookery.games.players import Observation
from rookery.games.registry import Entry, MakePlayer
from rookery.rng import Purpose
from rookery.specs import AgentSpec, Array

MOST_SEED = 2**63 - 1


class SeatedGame:
    """A game with outside seats, which waits for their actions in every turn.

    `observations` is what they observe; `play` takes their actions and continues to the
    same point of the next turn. World k plays as world k of `rookery.play` with the same
    seed, players and actions.
    """

    game: GuardedGame
    episodes: Episodes
    observations: dict[int, Observation]
    """What each outside seat observes in the current turn, by agent index."""

    def __init__(
        self,
        entry: Entry,
        settings: Settings,
        players: Sequence[str | MakePlayer | None],
        worlds: int,
        seed: int,
    ) -> None:
        """Build the game and begin its first turn.

        Args:
            entry: the game.
            settings: of the game.
            players: one per agent; None for the seats that are played from outside.
            worlds: number of worlds.
            seed: of the game's and the players' random numbers.
        """
        self._entry, self._settings, self._players = entry, settings, players
        self._worlds = worlds
        self.outside = [i for i, player in enumerate(players) if player is None]
        self._seed, self._restarts = seed, 0
        self._is_fresh = True
        self._open(seed)

    @property
    def agents(self) -> tuple[AgentSpec, ...]:
        """The agents of the game."""
        return self.game.agents

    def restart(self, seed: int | None = None) -> None:
        """Start an episode in every world.

        Args:
            seed: starts the game again with this seed. Without one, the first call starts
                the first episode and, where all episodes have ended, a call starts the
                next ones. Otherwise the game starts again with a seed that follows from
                the last one given and the number of such calls.
        """
        if seed is not None:
            self._seed, self._restarts = checked_seed(seed), 0
            self._reopen(self._seed)
        elif self._is_fresh:
            self._is_fresh = False
        elif self.episodes.closing.all():
            self.play(np.zeros((self._worlds, len(self.outside)), np.int64))
        else:
            self._restarts += 1
            key = (int(Purpose.RESET), self._restarts)
            sequence = np.random.SeedSequence(self._seed, spawn_key=key)
            self._reopen(int(sequence.generate_state(1, np.uint64)[0] >> 1))

    def play(self, actions: Array) -> Outcome:
        """Finish the turn with the actions of the outside seats, and begin the next one.

        Args:
            actions: (worlds, outside seats) integers; ignored where a seat is not active.

        Raises:
            ConfigError: if an active seat's action is not legal.
        """
        for column, i in enumerate(self.outside):
            self._chosen[:, i] = self._legal_actions(i, actions[:, column])
        self._is_fresh = False
        phase, *later = self._phases
        self.game.act(phase, self._chosen[:, phase])
        for phase in later:
            self._play_phase(phase)
        outcome = self.game.end_turn()
        starting, _ = self.episodes.add(outcome)
        if starting.any():
            for player in self._seated.values():
                player.forget(starting)
        self._turn += 1
        self._begin_turn()
        return outcome

    def close(self) -> None:
        """Close the game."""
        self.game.close()

    def _reopen(self, seed: int) -> None:
        self.game.close()
        self._is_fresh = False
        self._open(seed)

    def _open(self, seed: int) -> None:
        self.game = self._entry.build_guarded(self._settings, self._worlds, seed)
        self._seated = self._entry.seat_players(self.game, self._players, seed)
        shape = (self._worlds, len(self.agents))
        self.episodes = Episodes(*shape, self.game.counts)
        self._chosen = np.zeros(shape, np.int64)
        self._turn = 0
        self._begin_turn()

    def _begin_turn(self) -> None:
        """Play the turn up to the phase in which the outside seats act."""
        phases = self.game.begin_turn()
        acting = [n for n, phase in enumerate(phases) if set(phase) & set(self.outside)]
        if len(acting) > 1:
            self.game.close()
            raise GameError(
                f"in '{self._entry.name}', agents act one after the other and observe what "
                "those before them did, but a ParallelEnv asks for all actions at once: "
                "set game.acting=simultaneous if the game has this setting, or play one "
                "seat with rookery.to_gymnasium."
            )
        for phase in phases[: acting[0]]:
            self._play_phase(phase)
        self._phases = phases[acting[0] :]
        self._observe(self._phases[0])

    def _play_phase(self, phase: tuple[int, ...]) -> None:
        self._observe(phase)
        self.game.act(phase, self._chosen[:, phase])

    def _observe(self, phase: tuple[int, ...]) -> None:
        """Observe, and let players choose their actions."""
        observations = dict(zip(phase, split(self.game.observe(phase)), strict=True))
        for i, observation in observations.items():
            if i in self._seated:
                player = self._seated[i]
                self._chosen[:, i] = actions_of(player, observation, self._turn)
        if set(phase) & set(self.outside):
            self.observations = {i: observations[i] for i in self.outside}

    def _legal_actions(self, agent: int, actions: Array) -> Array:
        spec, observation = self.agents[agent], self.observations[agent]
        legal = (actions >= 0) & (actions < spec.num_actions)
        if observation.legal is not None:
            rows = np.arange(len(actions))
            legal &= observation.legal[rows, np.where(legal, actions, 0)]
        wrong = observation.active & ~legal
        if wrong.any():
            world = int(wrong.argmax())
            raise ConfigError(
                f"the action of agent '{spec.id}'{in_world(world, self._worlds)} is "
                f"{actions[world]}: give an integer from 0 to {spec.num_actions - 1}"
                f"{', where the action mask is 1' if spec.masked else ''}."
            )
        return np.where(observation.active, actions, 0)


def in_world(world: int, worlds: int) -> str:
    """Return ' in world 3', or '' if there is only one world."""
    return f" in world {world}" if worlds > 1 else ""


def checked_seed(seed: Any) -> int:
    """Return a seed as an int; refuse what is not one."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number <= MOST_SEED:
        raise ConfigError(f"seed is {seed!r}: give an integer from 0 to 2**63 - 1.")
    return number


def checked_actions(actions: Any, shape: tuple[int, ...], label: str) -> Array:
    """Return actions as an array of integers; refuse another shape or type."""
    array = np.asarray(actions)
    if array.shape != shape or array.dtype.kind not in "iu":
        expected = "one integer" if not shape else f"an array of {shape[0]} integers"
        raise ConfigError(
            f"{label} {actions!r:.60}, {array.shape} {array.dtype}: give {expected}."
        )
    return array.astype(np.int64)


def first_info(info: dict[str, Any]) -> dict[str, Any]:
    """Return the info of world 0, with single values as plain numbers and bools."""
    return {
        name: first_info(value)
        if isinstance(value, dict)
        else (value[0].item() if value.ndim == 1 else value[0])
        for name, value in info.items()
    }


def seat_info(
    seats: SeatedGame, agent: int, outcome: Outcome | None = None
) -> dict[str, Any]:
    """Return what an agent's info holds, as arrays of all worlds.

    `active` says whether the agent acts in the turn that begins, and `action_mask`, if
    the agent has one, which actions are legal in it. After a turn there are also `counts`,
    the game's own metrics, and `score`, the reward to report, if the game has them.
    """
    observation = seats.observations[agent]
    info: dict[str, Any] = {"active": observation.active.copy()}
    mask = action_mask(observation)
    if mask is not None:
        info[MASK] = mask
    if outcome is not None and outcome.scores is not None:
        info["score"] = outcome.scores[:, agent].copy()
    if outcome is not None and outcome.counts:
        info["counts"] = {
            name: count[:, agent].copy() for name, count in outcome.counts.items()
        }
    return info
