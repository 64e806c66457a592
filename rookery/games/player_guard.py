"""The one place where what a scripted player returns is checked, turn by turn.

Whatever a player raises or breaks becomes a `PlayerError` of one line, in training and in
evaluation alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rookery.errors import PlayerError, RookeryError
from rookery.games.locate import explain, method_place, users_frames
from rookery.games.players import Observation, Player
from rookery.specs import AgentSpec, Array


@contextmanager
def player_errors(spec: AgentSpec, method: str) -> Iterator[None]:
    """Turn what a user's player raises into a `PlayerError` of one line."""
    try:
        yield
    except RookeryError:
        raise
    except Exception as error:
        if not users_frames(error):
            raise  # a mistake of ours, which needs its traceback
        known = [*spec.parts, *spec.action_names]
        known += [label for part in spec.parts.values() for label in part.labels]
        subject = f"the player of agent '{spec.id}'"
        raise PlayerError(explain(error, subject, method, "player", known)) from error


def actions_of(player: Player, observation: Observation, turn: int) -> Array:
    """Return a player's actions, which must be legal; 0 where its agent is inactive."""
    spec = player.spec
    with player_errors(spec, "act"):
        returned: Any = player.act(observation, turn)
    actions = _as_array(returned)
    if actions is None or actions.shape != observation.active.shape:
        worlds = len(observation.active)
        text = _shown(returned) if actions is None else f"{actions.shape} {actions.dtype}"
        where = method_place(type(player), "act")
        raise PlayerError(
            f"the player of agent '{spec.id}' returned {text}{where}, expected ({worlds},) "
            "integers: return one action per world, such as np.full(self.worlds, 0)."
        )
    if actions.dtype.kind == "U":
        where = method_place(type(player), "act")
        raise PlayerError(
            f"the player of agent '{spec.id}' returned names{where}, expected numbers: "
            f"convert them with self.spec.action_names.index({str(actions.flat[0])!r})."
        )
    if actions.dtype.kind not in "biu":
        where = method_place(type(player), "act")
        raise PlayerError(
            f"the player of agent '{spec.id}' returned {actions.shape} "
            f"{actions.dtype}{where}, expected {observation.active.shape} integers: return "
            "the number of an action per world, and convert it with .astype(int) if need "
            "be."
        )
    _check_legal(player, observation, actions)
    return np.where(observation.active, actions, 0)


def _as_array(returned: Any) -> Array | None:
    """Return an array of numbers; None for anything that is none."""
    try:
        actions = np.asarray(returned)
    except ValueError:  # a list of lists of different lengths
        return None
    return None if actions.dtype.kind == "O" else actions


def _shown(returned: Any) -> str:
    if returned is None:
        return "nothing (is there a return?)"
    return f"a {type(returned).__name__}"


def _check_legal(player: Player, observation: Observation, actions: Array) -> None:
    spec = player.spec
    wrong = (actions < 0) | (actions >= spec.num_actions)
    if observation.legal is not None:
        rows = np.arange(len(actions))
        wrong |= ~observation.legal[rows, np.where(wrong, 0, actions)]
    wrong &= observation.active
    if wrong.any():
        world = int(wrong.argmax())
        where = method_place(type(player), "act")
        raise PlayerError(
            f"the player of agent '{spec.id}' chose action {actions[world]} in world "
            f"{player.world_numbers[world]}{where}: choose integers from 0 to "
            f"{spec.num_actions - 1} that are legal in the observation."
        )


def forget(player: Player, starting: Array) -> None:
    """Tell a player in which worlds an episode starts."""
    with player_errors(player.spec, "forget"):
        player.forget(starting)
