"""Scripted players under check: their actions, their memory and their random numbers.

A player acts in a whole game once, and everything it observed is kept. New players are then
shown the same observations, so that the game itself plays no part in the comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rookery.games.base import Observations
from rookery.games.conformance.causes import (
    Watch,
    random_state,
    random_uses,
    reductions,
    some,
    where_set,
)
from rookery.games.conformance.playback import Broken, restore_turn
from rookery.games.declarations import check_memory
from rookery.games.episodes import Episodes
from rookery.games.guard import GuardedGame
from rookery.games.loop import play_turn, split
from rookery.games.player_guard import actions_of, forget
from rookery.games.players import Observation, Player
from rookery.games.registry import Entry
from rookery.games.sources import Sources
from rookery.specs import Array

DRAW = "use self.draw(turn), so that the same seed gives the same actions"


@dataclass
class Scene:
    """One turn of one agent: what it observed, and what its player did."""

    observation: Observation
    actions: Array
    memory: dict[str, Array]
    """Before the player acted."""
    drew: list[str]
    """The global random generators that it used."""
    closing: Array


class PlayerCheck:
    """The check of one of a game's players, which acts for all agents."""

    def __init__(
        self, entry: Entry, name: str, build: Callable[[int], GuardedGame], seed: int
    ) -> None:
        self._entry, self._name, self._build, self._seed = entry, name, build, seed

    def run(self, turns: int, worlds: int) -> None:
        """Raise `Broken` or a `PlayerError` if the player does something wrong."""
        game = self._build(worlds)
        seats = [self._name] * len(game.agents)
        players = list(self._entry.seat_players(game, seats, self._seed).values())
        sources = Sources(type(players[0]))
        watch = Watch(players[0], sources)
        scenes = _play(game, players, turns)
        check_memory(players[0])
        _check_names(scenes, players[0], sources)
        drew = [name for scene in scenes for name in scene.drew]
        if drew and sources.classes:
            raise Broken(f"{some(random_uses(sources)) or drew[0]}: {DRAW}")
        inside = ("self.memory", "self._stream")
        changed = [name for name in watch.changed() if name not in inside]
        self._compare(scenes, worlds, sources, changed)

    def _compare(
        self, scenes: list[Scene], worlds: int, sources: Sources, changed: list[str]
    ) -> None:
        """Compare the first agent's player with new ones that observe the same."""
        turn = _first_difference(self._new(worlds), scenes, slice(None), 0)
        if turn is not None:
            uses = some(random_uses(sources)) or where_set(sources, changed)
            text = f": look at {uses}" if uses else ""
            raise Broken(
                f"it chose other actions in turn {turn} when repeated{text}; {DRAW}"
            )
        restored = restore_turn(len(scenes))
        turn = _first_difference(self._new(worlds), scenes, slice(None), restored)
        if turn is not None:
            names = where_set(sources, changed) or "its attributes"
            raise Broken(
                f"it chose other actions in turn {turn} after its memory was restored: "
                f"{names} is neither saved nor reset; keep it in self.memory['…'], an "
                "array with one entry per world"
            )
        turn = _first_difference(self._new(1), scenes, slice(0, 1), 0)
        if turn is not None:
            uses = some(reductions(sources))
            look = f"look at {uses}, and use" if uses else "use"
            raise Broken(
                f"it chose other actions in turn {turn} when world 0 was played on its "
                f"own: {look} np.where or axis=1, so that every world is decided by itself"
            )

    def _new(self, worlds: int) -> Player:
        game = self._build(worlds)
        seats = [self._name, *[None] * (len(game.agents) - 1)]
        return self._entry.seat_players(game, seats, self._seed)[0]


def _play(game: GuardedGame, players: list[Player], turns: int) -> list[Scene]:
    """Play a game with players, and return what the first agent did."""
    episodes = Episodes(game.worlds, len(players), game.counts)
    scenes: list[Scene] = []
    for turn in range(turns):

        def choose(phase: tuple[int, ...], observations: Observations) -> Array:
            columns = []
            for i, observation in zip(phase, split(observations), strict=True):
                kept, memory, state = (
                    _copy(observation),
                    _memory(players[i]),
                    random_state(),
                )
                actions = actions_of(players[i], observation, turn)  # noqa: B023
                _check_unchanged(players[i], kept, observation)
                if i == 0:
                    drew = [k for k, v in random_state().items() if v != state[k]]
                    scenes.append(Scene(kept, actions, memory, drew, np.zeros(0, bool)))
                columns.append(actions)
            return np.stack(columns, axis=1)

        closing, _ = episodes.add(play_turn(game, choose))
        scenes[-1].closing = closing
        if closing.any():
            for player in players:
                forget(player, closing)
    return scenes


def _check_names(scenes: list[Scene], player: Player, sources: Sources) -> None:
    """Refuse memory that was added while the player acted, and so is not restored."""
    added = sorted(player.memory.keys() - scenes[0].memory.keys())
    if added:
        raise Broken(
            f"{sources.prefix('memory')}memory['{added[0]}'] was added during play: add it "
            "in __init__, after super().__init__(*args), so that it can be restored"
        )


def _check_unchanged(player: Player, kept: Observation, observation: Observation) -> None:
    for name, part in observation.parts.items():
        if part.tobytes() != kept.parts[name].tobytes():
            where = Sources(type(player)).prefix("act")
            raise Broken(
                f"{where}act() changes part '{name}' of its observation: change a copy "
                f"instead, observation.parts['{name}'].copy()"
            )


def _first_difference(
    player: Player, scenes: list[Scene], worlds: slice, first: int
) -> int | None:
    """Return the first turn in which a new player acts differently, from `first` on."""
    for name, array in scenes[first].memory.items():
        player.memory[name][...] = array[worlds]
    for turn, scene in enumerate(scenes[first:], start=first):
        actions = actions_of(player, _copy(scene.observation, worlds), turn)
        if not np.array_equal(actions, scene.actions[worlds]):
            return turn
        if scene.closing[worlds].any():
            forget(player, scene.closing[worlds])
    return None


def _memory(player: Player) -> dict[str, Array]:
    return {name: array.copy() for name, array in player.memory.items()}


def _copy(observation: Observation, worlds: slice = slice(None)) -> Observation:
    parts = {name: part[worlds].copy() for name, part in observation.parts.items()}
    legal = None if observation.legal is None else observation.legal[worlds].copy()
    return Observation(parts, observation.active[worlds].copy(), legal)
