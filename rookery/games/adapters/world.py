"""One running copy of a foreign game, in the form of PettingZoo's parallel games.

A `World` calls the foreign game, keeps account of who lives, who has ended and who acts
next, and turns every way in which a game can break PettingZoo's own rules into a
`GameError` of one line.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from rookery.errors import GameError
from rookery.games.adapters.spaces import Seat
from rookery.plugins import locate_error
from rookery.specs import Array

STEP = ("observations", "rewards", "terminations", "truncations", "infos")


def raised(path: str, method: str, number: int, error: Exception) -> GameError:
    """Return the error of a game that raised one itself."""
    return GameError(
        f"{path} raised in {method} in world {number}: {locate_error(error)}: check the "
        "game's settings; if they are right, the mistake is in the game."
    )


class Unfit(Exception):
    """What a foreign game gave cannot be understood."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.what, self.advice = what, advice


class World:
    """One copy of the game: who lives in it, who acts next, and what was seen last."""

    def __init__(
        self,
        path: str,
        number: int,
        copy: Any,
        seats: Sequence[Seat],
        is_turn_based: bool,
        is_drawable: bool = False,
    ) -> None:
        self.path, self.number, self.copy = path, number, copy
        self.is_drawable, self.was_reset = is_drawable, False
        self.episode = self.turn = 0
        self.live: list[Seat] = []
        """Who is there and has not ended; nobody while the world is closing."""
        self.acting: list[Seat] = []
        self.seen: Mapping[Any, Any] = {}
        self.fresh: list[Seat] = []
        """Whose row is to be written from `seen`."""
        self.gone: list[Seat] = []
        """Whose row is to be emptied: a closing row is shown for one turn."""
        self._leaving: list[Seat] = []
        self._roster: list[Any] = []
        self._ended: set[Any] = set()
        self._seats = {seat.name: seat for seat in seats}
        self._is_turn_based = is_turn_based

    def reset(self, episode: int, seed: int) -> None:
        """Start an episode."""
        try:
            result = self.copy.reset(seed=seed)
        except Unfit as error:
            raise self._error(error.what, error.advice) from None
        except Exception as error:
            raise raised(self.path, "reset()", self.number, error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._error("reset() gave no pair", "return observations, infos")
        self.episode, self.turn, self.was_reset = episode, 0, True
        self.live, self._leaving, self._ended = [], [], set()
        self.seen = result[0]
        self._admit(lingering=set())
        if not self.live:
            raise self._error("reset() left nobody in `agents`", "fill it there")
        for seat in self.live:
            self._check_actions(seat)
        self.fresh = self.live
        self.gone = [seat for seat in self._seats.values() if seat not in self.live]

    def step(self, actions: list[int], outcome: tuple[Array, Array, Array]) -> None:
        """Advance by one turn; fill rewards, terminated, truncated (one per agent)."""
        chosen = {seat.name: actions[seat.index] + seat.start for seat in self.acting}
        try:
            result = self.copy.step(chosen)
        except Unfit as error:
            raise self._error(error.what, error.advice) from None
        except Exception as error:
            raise raised(self.path, "step()", self.number, error) from error
        if not isinstance(result, tuple) or len(result) != len(STEP):
            raise self._error("step() gave no five values", f"return {', '.join(STEP)}")
        self.seen, rewards, terminations, truncations, _ = result
        self.turn += 1
        self.fresh, self.gone, self._leaving = self.live, self._leaving, []
        ending = False
        try:
            for seat in self.live:
                name = seat.name
                outcome[0][seat.index] = rewards[name]
                if terminations[name] or truncations[name]:
                    ending = True
                _ = self.seen[name]
        except (KeyError, TypeError, ValueError) as error:
            raise self._explained(result) from error
        if ending or self.copy.agents != self._roster:
            self._recount(terminations, truncations, outcome)
        elif self._is_turn_based:
            self.acting = self._movers()

    def draw(self) -> Array:
        """Return a picture of the world as it is now."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a missing font is nobody's concern
                picture = self.copy.render()
        except Exception as error:
            raise raised(self.path, "render()", self.number, error) from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            raise self._error("render() gave no picture", "return (height, width, 3)")
        return picture

    def _recount(
        self,
        terminations: Mapping[Any, Any],
        truncations: Mapping[Any, Any],
        outcome: tuple[Array, Array, Array],
    ) -> None:
        """Take out who ended, let in who joined."""
        before = self.live
        for seat in before:
            ends = bool(terminations[seat.name]), bool(truncations[seat.name])
            if any(ends):
                outcome[1][seat.index], outcome[2][seat.index] = ends
                self._leaving.append(seat)
                self._ended.add(seat.name)
            elif seat.name not in self.copy.agents:
                raise self._error(
                    f"agent '{seat.name}' left `agents`",
                    "terminate or truncate it first",
                )
        self.live = [seat for seat in before if seat.name not in self._ended]
        self._admit({n for n in self._ended if terminations.get(n) or truncations.get(n)})
        self.fresh = before + [seat for seat in self.live if seat not in before]
        if not self.live:
            # Whoever never came ends with the others: an episode ends for everyone.
            absent = [s for name, s in self._seats.items() if name not in self._ended]
            for seat in absent:
                outcome[2][seat.index] = True

    def _admit(self, lingering: set[Any]) -> None:
        """Let in who appears in `agents`; `lingering` are dead who are still listed."""
        self._roster = list(self.copy.agents)
        for name in self._roster:
            if name not in self._seats:
                known = ", ".join(str(name) for name in self._seats)
                raise self._error(
                    f"agent '{name}' appeared", f"`possible_agents` has only {known}"
                )
            seat = self._seats[name]
            if name in self._ended:
                self._check_rest(seat, lingering)
            elif name not in self.seen:
                raise self._missing("observation", seat)
            elif seat not in self.live:
                self.live = [*self.live, seat]
        self.acting = self.live
        if self._is_turn_based and self.live:
            self.acting = self._movers()

    def _movers(self) -> list[Seat]:
        """Return who moves next in a game of turns; it must be somebody who is there."""
        movers = [self._seats.get(name) for name in self.copy.acting]
        found = [seat for seat in movers if seat is not None and seat in self.live]
        if len(found) < len(movers):
            raise self._error(
                f"it is the turn of {self.copy.acting[0]!r}, who is not in `agents`",
                "choose one who is there and has not ended",
            )
        return found

    def _check_rest(self, seat: Seat, lingering: set[Any]) -> None:
        if seat.name not in lingering:
            raise self._error(
                f"agent '{seat.name}' came back after it had ended",
                "end the episode first, or do not end the agent",
            )

    def _check_actions(self, seat: Seat) -> None:
        space = self.copy.action_space(seat.name)
        found = getattr(space, "n", None), getattr(space, "start", None)
        if found != (seat.spec.num_actions, seat.start):
            raise self._error(
                f"the action space of agent '{seat.name}' changed to {space}",
                f"keep its {seat.spec.num_actions} actions",
            )

    def _explained(self, result: tuple[Any, ...]) -> GameError:
        """Return what is wrong with what step() gave."""
        for seat in self.live:
            for what, values in zip(STEP[:4], result, strict=False):
                if not isinstance(values, Mapping):
                    return self._error(f"step() gave no dict as {what}", "key it by agent")
                if seat.name not in values:
                    return self._missing(what.removesuffix("s"), seat)
            reward = result[1][seat.name]
            if not isinstance(reward, Real):
                return self._error(
                    f"the reward of agent '{seat.name}' is {reward!r}", "return a number"
                )
        return self._error("step() gave flags that are not true or false", "mend them")

    def _missing(self, what: str, seat: Seat) -> GameError:
        return self._error(
            f"there is no {what} for agent '{seat.name}'",
            "each agent that lives needs one",
        )

    def _error(self, what: str, advice: str) -> GameError:
        return GameError(f"{self.path}, world {self.number}: {what}: {advice}.")
