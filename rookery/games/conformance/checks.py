"""The conformance test for games, whether built-in, a user's own or foreign.

Each check is a sentence that must be true. A check plays the game, compares bit for bit
where it can, and reports what it found; a failing check does not stop the others.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from pydantic import ValidationError

from rookery.errors import ConfigError, RookeryError
from rookery.games.base import Game
from rookery.games.conformance.contests import Contests
from rookery.games.conformance.playback import Broken, Playback, PlayedTurn, compare
from rookery.games.gridworld import GridEngine
from rookery.games.guard import GuardedGame
from rookery.games.loop import GameLoop, Turn
from rookery.games.registry import Entry
from rookery.specs import Array

TURNS = 100
WORLDS = 4
CROWD = 12
HISTORIES = 8
CONTEST_WORLDS = 32
SEAT_WORLDS = 64
SEAT_TURNS = 400
ALMOST_ONE = 1 - 2.0**-32
SEAT_LIMIT = 5.0
"""In standard errors; equal seats exceed it about once in a million checks."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    sentence: str
    result: str
    """`passed`, `failed` or `skipped`."""
    detail: str


class Skipped(Exception):
    """A check does not apply; the message gives the reason."""


def check_game(entry: Entry, settings: Any, seed: int = 0) -> Iterator[Finding]:
    """Run all checks of a game, and yield their results one by one."""
    conformance = Conformance(entry, settings, seed)
    for name, method in vars(Conformance).items():
        if name.startswith("_"):
            continue
        sentence = (inspect.getdoc(method) or "").split("\n")[0]
        try:
            yield Finding(sentence, "passed", method(conformance))
        except Skipped as reason:
            yield Finding(sentence, "skipped", str(reason))
        except (Broken, RookeryError) as failure:
            yield Finding(sentence, "failed", str(failure))


class Conformance:
    """All checks of one game with its settings; each public method is a check."""

    def __init__(self, entry: Entry, settings: Any, seed: int = 0) -> None:
        self._entry, self._settings, self._seed = entry, settings, seed

    def _build(self, worlds: int, first_world: int = 0, **changes: Any) -> GuardedGame:
        settings = self._settings.model_copy(update=changes)
        return self._entry.build_guarded(settings, worlds, self._seed, first_world)

    def _playback(self, worlds: int, first_world: int = 0) -> Playback:
        return Playback(self._build(worlds, first_world), self._seed, first_world)

    def keeps_its_contract(self) -> str:
        """Everything the game returns has the declared shape and type."""
        self._playback(WORLDS).turns(0, 3 * TURNS)
        return f"{3 * TURNS} turns in {WORLDS} worlds"

    def repeats_itself(self) -> str:
        """The same seed and actions give the same game."""
        first, second = self._playback(WORLDS), self._playback(WORLDS)
        for turn in range(2 * TURNS):
            compare(first.turn(turn), second.turn(turn), None, "in a second run")
        return f"{2 * TURNS} turns, bit for bit"

    def keeps_worlds_apart(self) -> str:
        """A world plays the same on its own as among others."""
        many = self._playback(WORLDS).turns(0, 2 * TURNS)
        for world in range(WORLDS):
            alone = self._playback(1, first_world=world)
            for played in many:
                compare(played, alone.turn(played.turn), world, "when played on its own")
        return f"{WORLDS} worlds of {2 * TURNS} turns, bit for bit"

    def leaves_observations_unchanged(self) -> str:
        """Observations stay as they were returned until the turn is over."""
        playback = self._playback(WORLDS)
        for turn in range(TURNS // 5):
            played = playback.turn(turn)
            later = PlayedTurn(turn, dict(played.arrays))
            for phase, observations in playback.observations:
                later.add_observations(playback.game, phase, observations)
            compare(played, later, None, "when read again at the end of the turn")
        return f"{TURNS // 5} turns"

    def restores_exactly(self) -> str:
        """After restoring a snapshot, the same actions have the same results."""
        playback = self._playback(WORLDS)
        if not playback.game.can_snapshot:
            raise Skipped("the game has no snapshots")
        playback.turns(0, TURNS // 2)
        snapshot = playback.game.snapshot()
        kept = {name: array.copy() for name, array in snapshot.items()}
        turns_played = playback.turns(TURNS // 2, TURNS // 2 + TURNS)
        end = playback.game.snapshot()
        end = {name: array.copy() for name, array in end.items()}
        for name, array in snapshot.items():
            if array.tobytes() != kept[name].tobytes():
                raise Broken(
                    f"array '{name}' of the snapshot changes as the game continues"
                )
        _check_restored(playback, kept, turns_played, end, "after restoring")
        _check_restored(
            self._playback(WORLDS), kept, turns_played, end, "after restoring in a new game"
        )
        return f"{TURNS} turns, in the same game and in a new one"

    def resets_completely(self) -> str:
        """After a reset, nothing of the last episode remains."""
        changes = {"order": "fixed"} if hasattr(self._settings, "order") else {}
        first, *others = self._second_episodes(changes)
        for other in others:
            for left, right in zip(first, other, strict=True):
                compare(left, right, None, "after a different first episode")
        return f"{TURNS} turns after each of {len(others) + 1} first episodes"

    def _second_episodes(self, changes: Mapping[str, Any]) -> Iterator[list[PlayedTurn]]:
        """Yield the same second episode after first episodes that differ."""
        longest = 0
        # Also episodes in which all agents repeat one action: a flag that every random
        # episode sets is noticed only after one that does not set it.
        constant = [(0, 0.0), (0, ALMOST_ONE)]
        for history, draw in [*((i, None) for i in range(HISTORIES)), *constant]:
            game = self._build(1, **changes)
            limit = 1_000_000 if draw is None else 10 * longest + TURNS
            turns = _play_episode(game, Playback(game, history, draw=draw), limit)
            if turns is not None:
                longest = max(longest, turns)
                yield Playback(game, self._seed).turns(0, TURNS)
            elif draw is None:
                raise Skipped("no episode ended within a million turns")

    def treats_seats_equally(self) -> str:
        """The same player does equally well in all seats of a role, within noise."""
        game = self._build(1)
        seats = _equal_seats(game)
        if not game.fair:
            raise Skipped("the rules of a foreign game may favour a seat")
        if not seats:
            raise Skipped("no two agents have the same role, observations and actions")
        if getattr(self._settings, "order", "shuffled") == "fixed":
            raise Skipped("order is fixed, which favours the first agent")
        if self._is_grid:
            for contests in self._contests:
                contests.check_winners(SEAT_LIMIT)
        for player in self._entry.players:
            rewards = self._rewards(player)
            for role, members in seats:
                label = f"'{role}' played by {player}"
                _compare_seats(rewards[..., members], members, label)
        players = ", ".join(self._entry.players)
        return f"{SEAT_TURNS} turns in {SEAT_WORLDS} worlds each with {players}"

    def _rewards(self, player: str) -> Array:
        """Return the rewards if one player acts for all agents, (turns, worlds, agents)."""
        turns = self._play(self._build(SEAT_WORLDS), player, SEAT_TURNS)
        return np.stack([turn.outcome.rewards for turn in turns])

    def _play(self, game: Game, player: str, turns: int) -> Iterator[Turn]:
        players = self._entry.seat_players(game, [player] * len(game.agents), self._seed)
        return islice(GameLoop(game, list(players.values())).turns(), turns)

    @property
    def _is_grid(self) -> bool:
        return isinstance(self._build(1).game, GridEngine)

    def gives_each_thing_once(self) -> str:
        """A thing that two agents go for is given to only one of them."""
        if not self._is_grid:
            raise Skipped("only grid games have things to take")
        for contests in self._contests:
            contests.check_once()
        number = sum(contests.number for contests in self._contests)
        if not number:
            raise Skipped("no two agents went for the same thing")
        return f"{number} contests"

    @cached_property
    def _contests(self) -> list[Contests]:
        """The contests among many agents, which makes them likely, for every player."""
        played = []
        for player in self._entry.players:
            contests = Contests(self._build_crowded())
            for _ in self._play(GuardedGame(contests, self._entry.name), player, TURNS):
                pass
            played.append(contests)
        return played

    def _build_crowded(self) -> Any:
        """Return the bare engine, with as many agents as fit, up to a limit."""
        fewest, model = self._settings.agents, type(self._settings)
        for agents in range(max(CROWD, fewest), fewest, -1):
            changes = {"acting": "simultaneous", "agents": agents}
            with suppress(ConfigError, ValidationError):  # no room, or not allowed
                settings = model.model_validate(self._settings.model_dump() | changes)
                return self._entry.build(settings, CONTEST_WORLDS, self._seed)
        settings = self._settings.model_copy(update={"acting": "simultaneous"})
        return self._entry.build(settings, CONTEST_WORLDS, self._seed)


def _check_restored(
    playback: Playback,
    snapshot: Mapping[str, Array],
    turns_played: list[PlayedTurn],
    end: Mapping[str, Array],
    when: str,
) -> None:
    playback.game.restore(snapshot)
    for played in turns_played:
        compare(played, playback.turn(played.turn), None, when)
    for name, array in playback.game.snapshot().items():
        if array.tobytes() != end[name].tobytes():
            raise Broken(f"array '{name}' of the snapshot differed {when}")


def _play_episode(game: Game, playback: Playback, limit: int) -> int | None:
    """Play until the only world has closed its first episode; return its length.

    Return None if it has not ended after `limit` turns.
    """
    live = np.ones(len(game.agents), bool)
    for turn in range(limit):
        closing = not live.any()
        arrays = playback.turn(turn).arrays
        if closing:
            return turn
        live &= ~(arrays["terminated"] | arrays["truncated"])[0]
    return None


def _equal_seats(game: Game) -> list[tuple[str, list[int]]]:
    """Return the roles with several agents of the same spec, and these agents."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, spec in enumerate(game.agents):
        alike[spec.role, tuple(spec.parts.items()), spec.actions].append(i)
    return [(key[0], members) for key, members in alike.items() if len(members) > 1]


def _compare_seats(rewards: Array, members: list[int], label: str) -> None:
    """Raise `Broken` if a seat does better or worse than the mean of all seats.

    Worlds differ in their random numbers, and turns in the order of acting, which all
    worlds share. The standard error includes both.
    """
    gaps = rewards.astype(np.float64)
    gaps -= gaps.mean(axis=2, keepdims=True)
    mean = gaps.sum(axis=0).mean(axis=0)
    by_world = gaps.sum(axis=0).var(axis=0, ddof=1) / gaps.shape[1]
    by_turn = gaps.mean(axis=1).var(axis=0, ddof=1) * len(gaps)
    error = np.abs(mean) / np.maximum(np.sqrt(by_world + by_turn), 1e-6)
    worst = int(error.argmax())
    if error[worst] > SEAT_LIMIT:
        raise Broken(
            f"seat {members[worst]} of {label} gets {mean[worst]:+.3g} relative to the "
            f"mean of all seats, {error[worst]:.0f} standard errors"
        )
