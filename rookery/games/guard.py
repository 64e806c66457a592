"""The one place where what a game returns is checked, turn by turn.

All code that plays a game plays it through `GuardedGame`. Behind it every array has the
declared shape and dtype, all numbers are finite, and the agents never change, so nothing
else needs to check again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from rookery.errors import GameError, RookeryError
from rookery.games.base import Game, GameWrapper, Observations, Outcome, Phases, are_finite
from rookery.games.locate import explain, located, method_place
from rookery.specs import AgentSpec, Array
from rookery.stop import LEAVING

FINITE = "all numbers must be finite as float32 (below 3.4e38)"
BOOL = np.dtype(bool)
NUMERIC = "biuf"
"""Dtype kinds that networks read: bools, integers and floats."""
RULES = {"__init__": "declare", "observe": "legal", "begin_round": "begin_round"}
"""The methods of a grid game that make what the engine's methods return."""


class GuardedGame(GameWrapper):
    """A game whose every return value is checked against the contract of `Game`.

    Whatever the game breaks or raises becomes a `GameError` of one line.
    """

    def __init__(self, game: Game, name: str, first_world: int = 0) -> None:
        """Guard a game; in messages, its worlds are numbered from `first_world` on."""
        super().__init__(game)
        self.name, self._first_world = name, first_world
        self._called = "__init__"
        self._turn = 0
        for fault, remedy in spec_faults(self.agents):
            raise self._error(fault, remedy)
        self._all = list(range(len(self.agents)))
        self._shape = (game.worlds, len(self.agents))
        self._count_names = set(self.counts)
        self._expected = [
            {name: (game.worlds, *part.shape) for name, part in spec.parts.items()}
            for spec in self.agents
        ]
        """For each agent, the shape of every part."""
        self._ended = np.zeros(self._shape, bool)
        self._note_ended()
        self._is_closed = False

    def _error(self, fault: str, remedy: str) -> GameError:
        where = self._place()
        return GameError(f"game '{self.name}' {fault}{where}: {remedy}.")

    def _world(self, index: Any) -> int:
        """Return the number of a world in all worlds of the run."""
        return self._first_world + int(index)

    def _agent_in(self, agent: int, world: int) -> str:
        return f"agent '{self.agents[agent].id}' in world {self._world(world)}"

    def _place(self) -> str:
        """Return the place of the user's method that was called last; '' if unknown."""
        rules = getattr(self.game, "rules", None)
        if rules is None:
            return method_place(type(self.game), self._called)
        return method_place(type(rules), RULES.get(self._called, ""))

    def call(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call the game; whatever it raises becomes one line."""
        self._called = method.__name__
        try:
            return method(*args)
        except LEAVING:
            raise
        except RookeryError as error:
            if (known := located(error)) is error:
                raise  # with its own cause
            raise known from error
        except BaseException as error:
            subject = f"game '{self.name}'"
            raise GameError(explain(error, subject, method.__name__, "game")) from error

    # One turn.

    def begin_turn(self) -> Phases:
        """Begin a turn; every agent must be in exactly one phase."""
        phases = super().begin_turn()
        if self.game.agents is not self.agents and self.game.agents != self.agents:
            ids = [spec.id for spec in self.game.agents]
            raise self._error(
                f"changed its agents during play to {ids}",
                "declare all agents in the constructor, and mark absent ones as not active",
            )
        try:
            agents = sorted(chain.from_iterable(phases))
        except TypeError:
            agents = []  # not tuples of numbers
        if agents != self._all:
            raise self._error(
                f"returned the phases {phases}", "put every agent in exactly one phase"
            )
        return phases

    def observe(self, agents: Sequence[int]) -> Observations:
        """Observe; everything must be as declared."""
        observations = super().observe(agents)
        self._check_lengths(observations, len(agents))
        entries = zip(
            agents, observations.parts, observations.active, observations.legal, strict=True
        )
        for i, parts, active, legal in entries:
            spec = self.agents[i]
            self._check_parts(spec, self._expected[i], parts)
            if not _is_array(active, (self.worlds,), BOOL):
                raise self._unlike(spec, "'active'", active, (self.worlds,), BOOL)
            self._check_inactive(i, active)
            if legal is not None or spec.masked:
                self._check_legal(spec, legal, active)
        return observations

    def _check_lengths(self, observations: Any, agents: int) -> None:
        if not isinstance(observations, Observations):
            raise self._error(
                f"returned a {type(observations).__name__} from observe()",
                "return Observations",
            )
        lists = (observations.parts, observations.active, observations.legal)
        lengths = [len(entries) for entries in lists]
        if lengths != [agents] * 3:
            raise self._error(
                f"returned parts, active and legal actions of {lengths} agents, expected "
                f"{agents} each",
                "return one entry for each agent in the argument of observe()",
            )

    def _check_inactive(self, agent: int, active: Array) -> None:
        if self._any_ended and (active & self._ended[:, agent]).any():
            world = int((active & self._ended[:, agent]).argmax())
            raise self._error(
                f"has {self._agent_in(agent, world)} active after its end",
                "an ended agent stays inactive until the closing turn is over",
            )

    def _check_parts(
        self,
        spec: AgentSpec,
        shapes: Mapping[str, tuple[int, ...]],
        parts: Mapping[str, Array],
    ) -> None:
        is_mapping = isinstance(parts, Mapping)
        if not is_mapping or parts.keys() != spec.parts.keys():
            names = sorted(parts) if is_mapping else f"as a {type(parts).__name__}"
            raise self._error(
                f"gave agent '{spec.id}' the parts {names}, expected {sorted(spec.parts)}",
                "return exactly the declared parts",
            )
        for name, shape in shapes.items():
            array, dtype = parts[name], spec.parts[name].dtype
            if not _is_array(array, shape, dtype):
                raise self._unlike(spec, f"part '{name}'", array, shape, dtype)
            if dtype.kind == "f" and not _all_finite(array):
                index = tuple(np.argwhere(~are_finite(array))[0])
                raise self._error(
                    f"gave agent '{spec.id}' {array[index]} in part '{name}' of "
                    f"world {self._world(index[0])}",
                    FINITE,
                )

    def _unlike(
        self, spec: AgentSpec, label: str, array: Any, shape: tuple[int, ...], dtype: Any
    ) -> GameError:
        """Return the error for something that is not an array of this shape and dtype."""
        actual = f"a {type(array).__name__}"
        if isinstance(array, np.ndarray):
            actual = f"{array.shape} {array.dtype}"
        return self._error(
            f"gave agent '{spec.id}' {label} as {actual}, expected {shape} {dtype}",
            "the first axis is the world, the others are as declared",
        )

    def _check_legal(self, spec: AgentSpec, legal: Array | None, active: Array) -> None:
        if legal is None:
            if spec.masked:
                raise self._error(
                    f"gave agent '{spec.id}' no legal actions, although it is declared "
                    "with masked=True",
                    "return (worlds, actions) bool",
                )
            return
        if not spec.masked:
            raise self._error(
                f"gave agent '{spec.id}' legal actions, although it is not declared with "
                "masked=True",
                "declare the agent with masked=True, or return None",
            )
        shape = (self.worlds, spec.num_actions)
        if not _is_array(legal, shape, BOOL):
            raise self._unlike(spec, "legal actions", legal, shape, BOOL)
        stuck = active & ~legal.any(axis=1)
        if stuck.any():
            raise self._error(
                f"left agent '{spec.id}' in world {self._world(stuck.argmax())} without a "
                "legal action",
                "an active agent needs at least one",
            )

    def end_turn(self) -> Outcome:
        """End the turn; rewards must be finite, and an agent ends once per episode."""
        outcome = super().end_turn()
        if not isinstance(outcome, Outcome):
            raise self._error(
                f"returned a {type(outcome).__name__} from end_turn()", "return an Outcome"
            )
        self._check_floats("rewards", "a reward", outcome.rewards)
        if outcome.scores is not None:
            self._check_floats("scores", "a score", outcome.scores)
        if outcome.counts.keys() != self._count_names:
            raise self._error(
                f"returned the counts {sorted(outcome.counts)}, expected "
                f"{sorted(self.counts)}",
                "return exactly the declared counts, every turn",
            )
        for name, count in outcome.counts.items():
            self._check_floats(f"count '{name}'", f"a count '{name}'", count)
        self._check_outcome("terminated", outcome.terminated, "b", "bool")
        self._check_outcome("truncated", outcome.truncated, "b", "bool")
        self._check_unpaid(outcome.rewards)
        self._check_ends(outcome.terminated | outcome.truncated)
        self._turn += 1
        return outcome

    def _check_floats(self, label: str, entry: str, array: Any) -> None:
        self._check_outcome(label, array, "f", "floats")
        if not _all_finite(array):
            world, agent = np.argwhere(~are_finite(array))[0]
            raise self._error(
                f"gave {self._agent_in(agent, world)} {entry} of "
                f"{array[world, agent]} in turn {self._turn}",
                FINITE,
            )

    def _check_outcome(self, label: str, array: Any, kind: str, dtype: str) -> None:
        is_array = isinstance(array, np.ndarray)
        if is_array and array.shape == self._shape and array.dtype.kind == kind:
            return
        if not is_array or array.shape != self._shape:
            actual = (
                f"of shape {array.shape}" if is_array else f"as a {type(array).__name__}"
            )
            raise self._error(
                f"returned {label} {actual}, expected {self._shape}",
                "return one entry per world and agent",
            )
        raise self._error(f"returned {label} of {array.dtype}", f"return {dtype}")

    def _check_unpaid(self, rewards: Array) -> None:
        if not self._any_ended:
            return
        late = (rewards != 0) & self._ended
        if late.any():
            world, agent = np.argwhere(late)[0]
            raise self._error(
                f"gave {self._agent_in(agent, world)} a reward of "
                f"{rewards[world, agent]} after its end",
                "an ended agent gets no reward until the next episode",
            )

    def _check_ends(self, ends: Array) -> None:
        if not (np.count_nonzero(ends) or self._any_closing):
            return
        twice = ends & self._ended
        if twice.any():
            world, agent = np.argwhere(twice)[0]
            raise self._error(
                f"ended {self._agent_in(agent, world)} a second time in one episode",
                "set terminated or truncated once, and never in a closing turn",
            )
        self._ended |= ends
        self._ended[self._closing] = False
        self._note_ended()

    def _note_ended(self) -> None:
        self._closing = np.all(self._ended, axis=1)
        self._any_closing = bool(self._closing.any())
        self._any_ended = bool(self._ended.any())

    # Forwarded, with the guard's own state.

    def snapshot(self) -> dict[str, Array]:
        """Return the game's snapshot, and which agents have ended."""
        arrays = super().snapshot()
        for name, array in arrays.items():
            is_array = isinstance(array, np.ndarray)
            if not is_array or array.shape[:1] != (self.worlds,):
                actual = array.shape if is_array else f"a {type(array).__name__}"
                raise self._error(
                    f"returned '{name}' in its snapshot as {actual}, expected "
                    f"({self.worlds}, …)",
                    "the first axis of every array is the world",
                )
        return {**arrays, "guard.ended": self._ended.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the game, and which agents have ended."""
        super().restore({k: v for k, v in arrays.items() if k != "guard.ended"})
        self._ended = arrays["guard.ended"].copy()
        self._note_ended()

    def close(self) -> None:
        """Close the game once, however often this is called."""
        if not self._is_closed:
            self._is_closed = True
            super().close()


def _is_array(array: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype


def _all_finite(numbers: Array) -> bool:
    return np.count_nonzero(are_finite(numbers)) == numbers.size


def spec_faults(agents: Sequence[AgentSpec]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a game's agents, each with a remedy."""
    ids = [spec.id for spec in agents]
    if not ids or len(set(ids)) < len(ids):
        yield f"has the agents {ids}", "declare at least one agent, each with a unique id"
    for spec in agents:
        if not spec.parts or spec.num_actions < 1:
            yield (
                f"declares agent '{spec.id}' with {len(spec.parts)} parts and "
                f"{spec.num_actions} actions",
                "declare at least one of each",
            )
        yield from _part_faults(spec)


def _part_faults(spec: AgentSpec) -> Iterator[tuple[str, str]]:
    for name, part in spec.parts.items():
        if part.dtype.kind not in NUMERIC:
            yield (
                f"declares part '{name}' of agent '{spec.id}' as {part.dtype}",
                "declare bools, integers or floats",
            )
        if len(part.shape) == 3 and not prod(part.shape):
            yield (
                f"declares part '{name}' of agent '{spec.id}' as {part}, an empty image",
                "make every side at least 1, or omit the part",
            )
    if not any(prod(part.shape) for part in spec.parts.values()):
        parts = ", ".join(f"'{name}' {part}" for name, part in spec.parts.items())
        yield (
            f"declares agent '{spec.id}' with nothing to observe: {parts}",
            "declare a part with at least one number, even if it is always 0",
        )
