"""Playing a game with players: what they raise names their own line."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.errors import GameError, PlayerError
from rookery.games.builtin.matrix import Cooperator
from rookery.games.loop import GameLoop
from rookery.games.players import Player
from rookery.games.registry import find


class Confused(Player):
    """Looks for a part that there is not."""

    def act(self, observation, turn):
        return observation.parts["future"]


class Refusing(Player):
    """Raises an error that is one line already."""

    def act(self, observation, turn):
        raise GameError("not today.")


def loop_of(*players):
    entry = find("iterated_chicken")
    game = entry.build_guarded(entry.settings(), 2, 0)
    return GameLoop(game, list(entry.seat_players(game, players, seed=0).values()))


def test_what_a_users_player_raises_is_one_line_with_file_and_line():
    line = Confused.act.__code__.co_firstlineno + 1

    with pytest.raises(PlayerError) as raised:
        next(loop_of("pavlov", Confused).turns())

    assert str(raised.value) == (
        "the player of agent '1' raised in act(): KeyError: 'future' (test_loop.py, line "
        f"{line}): known are past, straight, swerve."
    )


def test_an_error_that_is_one_line_already_is_passed_on():
    with pytest.raises(GameError, match=r"^not today\.$"):
        next(loop_of("pavlov", Refusing).turns())


def test_a_mistake_in_a_built_in_player_keeps_its_traceback(monkeypatch):
    # Code without a line of the user's.
    monkeypatch.setattr(Cooperator, "act", np.random.default_rng)

    with pytest.raises(TypeError):
        next(loop_of("pavlov", "cooperator").turns())
