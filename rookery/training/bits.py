"""The bits of a machine: one hash of what it computes at the shapes of a run.

Processors and libraries round differently, and neither names nor versions tell whether they
do. So one update and some acts of every agent that has a network, and some turns of the
game, are computed at the start, and hashed. Two machines with different hashes give
different runs. With the same hash they give the same run, as far as so little work tells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from rookery.games.base import Game, Observations
from rookery.games.loop import play_turn, split
from rookery.games.player_guard import actions_of
from rookery.games.registry import Entry
from rookery.specs import Array

TURNS = 8


def bits_of(agents: Sequence[str], entry: Entry, game: Game, seed: int) -> str:
    """Return the hash of what agents have computed, and of some turns of a game.

    Args:
        agents: digests of what each agent learned and did.
        entry: the game.
        game: built from it, in its first turn; the turns are played in it.
        seed: of the random players.
    """
    chain = hashlib.sha256("".join(agents).encode())
    with suppress(Exception):  # the run meets the same error, and reports it
        _play(entry, game, seed, lambda array: chain.update(array.tobytes()))
    return chain.hexdigest()


def _play(entry: Entry, game: Game, seed: int, take: Callable[[Array], None]) -> None:
    """Play some turns with random players, and take all that agents observe and get."""
    players = entry.seat_players(game, ["random"] * len(game.agents), seed)

    def choose(turn: int, phase: tuple[int, ...], observations: Observations) -> Array:
        actions = []
        for i, observation in zip(phase, split(observations), strict=True):
            actions.append(actions_of(players[i], observation, turn))
            for part in observation.parts.values():
                take(part)
        return np.stack(actions, axis=1)

    for turn in range(TURNS):
        outcome = play_turn(game, partial(choose, turn))
        for array in (outcome.rewards, outcome.terminated, outcome.truncated):
            take(array)
