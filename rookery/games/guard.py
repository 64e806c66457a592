"""The one place where what a game says is checked, turn by turn.

Whatever plays a game plays it through `Guarded`: behind it, every array has the declared
shape and type and holds finite numbers alone, and agents never change. The rest of the
code need not ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rookery.errors import GameError, RookeryError
from rookery.games.base import Game, Observations, Outcome, Phases, are_finite
from rookery.games.declared import faults_of
from rookery.plugins import locate_error
from rookery.specs import AgentSpec, Array
from rookery.stop import LEAVING

FINITE = "every number must be finite as a float32 (below 3.4e38)"


class GuardedGame(Game):
    """A game whose every word is checked against its contract."""

    def __init__(self, game: Game, name: str) -> None:
        super().__init__(game.settings, game.worlds, 0)
        self.game, self.name = game, name
        self.agents = game.agents
        self.players = game.players
        self.replayable, self.fair = game.replayable, game.fair
        self.counts = game.counts
        for what, remedy in faults_of(self.agents):
            raise self._error(what, remedy)
        self._all = list(range(len(self.agents)))
        self._shape = (game.worlds, len(self.agents))
        self._ended = np.zeros(self._shape, bool)
        self._closing = np.zeros(game.worlds, bool)
        self._some_ended = False
        self._is_closed = False

    def _error(self, what: str, remedy: str) -> GameError:
        return GameError(f"game '{self.name}' {what}: {remedy}.")

    def _ask(self, method: Callable[..., Any], *about: Any) -> Any:
        """Return what the game says; whatever it raises becomes one line."""
        try:
            return method(*about)
        except (RookeryError, *LEAVING):
            raise
        except BaseException as error:
            raise self._error(
                f"raised in {method.__name__}(): {locate_error(error)}",
                "the mistake is in the game",
            ) from error

    # One turn.

    def begin_turn(self) -> Phases:
        """Begin a turn; every agent must be in exactly one phase."""
        phases: Phases = self._ask(self.game.begin_turn)
        if self.game.agents is not self.agents and self.game.agents != self.agents:
            now = [spec.id for spec in self.game.agents]
            raise self._error(
                f"changed its agents half-way to {now}",
                "declare all agents at the start, and mark those absent as not active",
            )
        try:
            everyone = sorted(i for phase in phases for i in phase)
        except TypeError:
            everyone = []  # not tuples of numbers
        if everyone != self._all:
            raise self._error(
                f"gave the phases {phases}", "put every agent in exactly one phase"
            )
        return phases

    def observe(self, agents: Sequence[int]) -> Observations:
        """Observe; everything must be as declared."""
        seen: Observations = self._ask(self.game.observe, agents)
        self._check_form(seen, len(agents))
        for place, i in enumerate(agents):
            spec = self.agents[i]
            self._check_parts(spec, seen.parts[place])
            self._check_array(spec, "'active'", seen.active[place], (), np.dtype(bool))
            self._check_absent(i, seen.active[place])
            self._check_legal(spec, seen.legal[place], seen.active[place])
        return seen

    def _check_form(self, seen: Any, agents: int) -> None:
        if not isinstance(seen, Observations):
            raise self._error(
                f"gave a {type(seen).__name__} for an observation",
                "return an Observation",
            )
        found = [len(entries) for entries in (seen.parts, seen.active, seen.legal)]
        if found != [agents] * 3:
            raise self._error(
                f"showed parts, active and legal actions of {found} agents, expected "
                f"{agents} each",
                "return one entry per agent it was asked for",
            )

    def _check_absent(self, agent: int, active: Array) -> None:
        if self._some_ended and (active & self._ended[:, agent]).any():
            world = int((active & self._ended[:, agent]).argmax())
            raise self._error(
                f"has agent '{self.agents[agent].id}' in world {world} active after its "
                "end",
                "nobody acts who has ended, until the turn after the closing one",
            )

    def _check_parts(self, spec: AgentSpec, parts: Mapping[str, Array]) -> None:
        if not isinstance(parts, Mapping) or parts.keys() != spec.parts.keys():
            named = isinstance(parts, Mapping)
            found = sorted(parts) if named else f"as a {type(parts).__name__}"
            raise self._error(
                f"showed agent '{spec.id}' the parts {found}, expected "
                f"{sorted(spec.parts)}",
                "return every declared part, and no other",
            )
        for name, part in spec.parts.items():
            self._check_array(spec, f"part '{name}'", parts[name], part.shape, part.dtype)
            if part.dtype.kind == "f" and not are_finite(parts[name]).all():
                place = tuple(np.argwhere(~are_finite(parts[name]))[0])
                raise self._error(
                    f"showed agent '{spec.id}' {parts[name][place]} in part '{name}' of "
                    f"world {place[0]}",
                    FINITE,
                )

    def _check_array(
        self, spec: AgentSpec, what: str, found: Any, shape: tuple[int, ...], dtype: Any
    ) -> None:
        wanted = (self.worlds, *shape)
        if not isinstance(found, np.ndarray):
            found_is = f"a {type(found).__name__}"
        elif found.shape == wanted and found.dtype == dtype:
            return
        else:
            found_is = f"{found.shape} {found.dtype}"
        raise self._error(
            f"gave agent '{spec.id}' {what} as {found_is}, expected {wanted} {dtype}",
            "the first axis is the world, the rest as declared",
        )

    def _check_legal(self, spec: AgentSpec, legal: Array | None, active: Array) -> None:
        if legal is None:
            if spec.masked:
                raise self._error(
                    f"gave agent '{spec.id}' no legal actions, although it declared them",
                    "return (worlds, actions) bool",
                )
            return
        if not spec.masked:
            raise self._error(
                f"gave agent '{spec.id}' legal actions, although it declared none",
                "declare the agent with masked=True",
            )
        shape = (spec.num_actions,)
        self._check_array(spec, "legal actions", legal, shape, np.dtype(bool))
        stuck = active & ~legal.any(axis=1)
        if stuck.any():
            raise self._error(
                f"left agent '{spec.id}' in world {int(stuck.argmax())} without a legal "
                "action",
                "an active agent needs at least one",
            )

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Act."""
        self._ask(self.game.act, agents, actions)

    def end_turn(self) -> Outcome:
        """End the turn; rewards must be finite, and everyone ends once."""
        outcome = self._ask(self.game.end_turn)
        if not isinstance(outcome, Outcome):
            raise self._error(
                f"gave a {type(outcome).__name__} for an outcome", "return an Outcome"
            )
        self._check_outcome("rewards", outcome.rewards, "f")
        if outcome.scores is not None:
            self._check_outcome("scores", outcome.scores, "f")
        if outcome.counts.keys() != set(self.counts):
            raise self._error(
                f"gave the counts {sorted(outcome.counts)}, expected {sorted(self.counts)}",
                "give every declared count, and no other, every turn",
            )
        for name, count in outcome.counts.items():
            self._check_outcome(f"count '{name}'", count, "f")
        self._check_outcome("terminated", outcome.terminated, "b")
        self._check_outcome("truncated", outcome.truncated, "b")
        self._check_unpaid(outcome.rewards)
        self._check_ends(outcome.terminated | outcome.truncated)
        return outcome

    def _check_outcome(self, what: str, found: Any, kind: str) -> None:
        wanted = "floats" if kind == "f" else "bool"
        if not isinstance(found, np.ndarray) or found.shape != self._shape:
            is_array = isinstance(found, np.ndarray)
            found_is = (
                f"of shape {found.shape}" if is_array else f"as a {type(found).__name__}"
            )
            raise self._error(
                f"gave {what} {found_is}, expected {self._shape}",
                "one entry per world and agent",
            )
        if found.dtype.kind != kind:
            raise self._error(f"gave {what} of {found.dtype}", f"return {wanted}")
        if kind == "f" and not are_finite(found).all():
            world, agent = np.argwhere(~are_finite(found))[0]
            raise self._error(
                f"gave {what} of {found[world, agent]} to agent "
                f"'{self.agents[agent].id}' in world {world}",
                FINITE,
            )

    def _check_unpaid(self, rewards: Array) -> None:
        if not self._some_ended:
            return
        late = (rewards != 0) & self._ended
        if late.any():
            world, agent = np.argwhere(late)[0]
            raise self._error(
                f"gave a reward of {rewards[world, agent]} to agent "
                f"'{self.agents[agent].id}' in world {world} after its end",
                "what comes after an end belongs to no step",
            )

    def _check_ends(self, ends: Array) -> None:
        if not (np.count_nonzero(ends) or np.count_nonzero(self._closing)):
            return
        twice = ends & self._ended
        if twice.any():
            world, agent = np.argwhere(twice)[0]
            raise self._error(
                f"ended agent '{self.agents[agent].id}' in world {world} a second time in "
                "one episode",
                "set terminated or truncated once, and never in a closing turn",
            )
        self._ended |= ends
        self._ended[self._closing] = False
        self._closing = np.all(self._ended, axis=1)
        self._some_ended = bool(self._ended.any())

    # Passed on as they are.

    def snapshot(self) -> dict[str, Array]:
        """Return the game's snapshot, and who has ended."""
        return {**self._ask(self.game.snapshot), "guard.ended": self._ended.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the game, and who has ended."""
        own = {k: v for k, v in arrays.items() if k != "guard.ended"}
        self._ask(self.game.restore, own)
        self._ended = arrays["guard.ended"].copy()
        self._closing = np.all(self._ended, axis=1)
        self._some_ended = bool(self._ended.any())

    @property
    def can_snapshot(self) -> bool:
        """Whether the game can be snapshot."""
        return self.game.can_snapshot

    def facts(self) -> dict[str, Array]:
        """Return the game's facts."""
        facts: dict[str, Array] = self._ask(self.game.facts)
        return facts

    def begin_round(self, number: int) -> None:
        """Begin a round."""
        self._ask(self.game.begin_round, number)

    def render(self, world: int) -> Array:
        """Return a picture of one world."""
        picture: Array = self._ask(self.game.render, world)
        return picture

    def close(self) -> None:
        """Close the game, once: it may not expect to be closed again."""
        if not self._is_closed:
            self._is_closed = True
            self._ask(self.game.close)
