"""The conformance test for games: ours, a user's grid game, and foreign ones.

Each check is a sentence that must hold. A check plays the game, compares bit for bit
wherever it can, and says what it saw; a failing one does not stop the others.
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
from rookery.games.loop import GameLoop
from rookery.games.players import Player
from rookery.games.registry import Entry
from rookery.rng import Purpose, Stream
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
"""Standard errors; equal seats exceed it about once in a million checks."""


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    sentence: str
    result: str
    """`passed`, `failed` or `skipped`."""
    detail: str


class Skipped(Exception):
    """A check does not apply; the message says why."""


def check_game(entry: Entry, settings: Any, seed: int = 0) -> Iterator[Finding]:
    """Run every check of a game, one after the other."""
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
    """All checks of one game with given settings; each public method is one."""

    def __init__(self, entry: Entry, settings: Any, seed: int = 0) -> None:
        self._entry, self._settings, self._seed = entry, settings, seed

    def _build(self, worlds: int, first_world: int = 0, **changes: Any) -> GuardedGame:
        settings = self._settings.model_copy(update=changes)
        game = self._entry.build(settings, worlds, self._seed, first_world)
        return GuardedGame(game, self._entry.name)

    def _playback(self, worlds: int, first_world: int = 0) -> Playback:
        game = self._build(worlds, first_world)
        return Playback(game, self._seed, first_world)

    def keeps_its_contract(self) -> str:
        """What the game says has the declared shape and type, turn after turn."""
        self._playback(WORLDS).turns(0, 3 * TURNS)
        return f"{3 * TURNS} turns in {WORLDS} worlds"

    def repeats_itself(self) -> str:
        """The same seed and actions give the same game."""
        first, second = self._playback(WORLDS), self._playback(WORLDS)
        for turn in range(2 * TURNS):
            compare(first.turn(turn), second.turn(turn), None, "of a second run")
        return f"{2 * TURNS} turns, bit for bit"

    def worlds_do_not_touch(self) -> str:
        """A world among many plays like the same world alone."""
        many = self._playback(WORLDS).turns(0, 2 * TURNS)
        for world in range(WORLDS):
            alone = self._playback(1, first_world=world)
            for played in many:
                compare(played, alone.turn(played.turn), world, "when it plays alone")
        return f"{WORLDS} worlds of {2 * TURNS} turns, bit for bit"

    def leaves_what_it_said(self) -> str:
        """What the game handed out does not change afterwards."""
        playback = self._playback(WORLDS)
        handed_out: list[tuple[PlayedTurn, tuple[int, ...], Any]] = []
        for turn in range(TURNS // 5):
            for kept, phase, seen in handed_out:
                now = PlayedTurn(kept.turn)
                now.hear(playback.game, phase, seen)
                compare(kept, now, None, "when looked at a turn later")
            handed_out = []
            for phase in playback.game.begin_turn():
                seen = playback.game.observe(phase)
                handed_out.append((PlayedTurn(turn), phase, seen))
                handed_out[-1][0].hear(playback.game, phase, seen)
                playback.game.act(phase, playback.actions(turn, phase, seen))
            playback.game.end_turn()
        return f"{TURNS // 5} turns"

    def goes_back_exactly(self) -> str:
        """After restoring a snapshot, the same actions bring the same again."""
        playback = self._playback(WORLDS)
        if not playback.game.can_snapshot:
            raise Skipped("the game cannot be snapshot")
        playback.turns(0, TURNS // 2)
        snapshot = playback.game.snapshot()
        kept = {name: array.copy() for name, array in snapshot.items()}
        turns_played = playback.turns(TURNS // 2, TURNS // 2 + TURNS)
        end = playback.game.snapshot()
        end = {name: array.copy() for name, array in end.items()}
        for name, array in snapshot.items():
            if array.tobytes() != kept[name].tobytes():
                raise Broken(f"column '{name}' of the snapshot changes as play goes on")
        _go_back(playback, kept, turns_played, end, "after going back")
        _go_back(self._playback(WORLDS), kept, turns_played, end, "in a new game")
        return f"{TURNS} turns, in the same game and in a new one"

    def forgets_the_last_episode(self) -> str:
        """After a reset nothing of the old episode remains."""
        changes = {"order": "fixed"} if hasattr(self._settings, "order") else {}
        first, *others = self._second_episodes(changes)
        for other in others:
            for one, another in zip(first, other, strict=True):
                compare(one, another, None, "after another first episode")
        return f"{TURNS} turns after each of {len(others) + 1} first episodes"

    def _second_episodes(self, changes: Mapping[str, Any]) -> Iterator[list[PlayedTurn]]:
        """Play first episodes that differ, each time with the same one after it."""
        longest = 0
        # Also those in which everybody does the same throughout: a flag that any lively
        # episode sets shows only after a quiet one.
        quiet = [(0, 0.0), (0, ALMOST_ONE)]
        for history, luck in [*((i, None) for i in range(HISTORIES)), *quiet]:
            game = self._build(1, **changes)
            limit = 1_000_000 if luck is None else 10 * longest + TURNS
            turns = _play_out(game, Playback(game, history, luck=luck), limit)
            if turns is not None:
                longest = max(longest, turns)
                yield Playback(game, self._seed).turns(0, TURNS)
            elif luck is None:
                raise Skipped("no episode ended within a million turns")

    def treats_seats_alike(self) -> str:
        """Equal players in all seats of a role fare the same, within noise."""
        game = self._build(1)
        seats = _equal_seats(game)
        if not game.fair:
            raise Skipped("a foreign game's own rules may favour a seat")
        if not seats:
            raise Skipped("no two agents are alike")
        if getattr(self._settings, "order", "shuffled") == "fixed":
            raise Skipped("order is fixed, which favours the first")
        if self._is_grid:
            for contests in self._contests:
                contests.check_winners(SEAT_LIMIT)
        for player in self._entry.players:
            paid = self._paid(player)
            for role, members in seats:
                who = f"'{role}' played by {player}"
                _compare_seats(paid[..., members], members, who)
        players = ", ".join(self._entry.players)
        return f"{SEAT_TURNS} turns in {SEAT_WORLDS} worlds each with {players}"

    def _paid(self, player: str) -> Array:
        """Return what all get when all are one player, (turns, worlds, agents)."""
        game = self._build(SEAT_WORLDS)
        table = GameLoop(game, self._seats(player, game))
        return np.stack(
            [turn.outcome.rewards for turn in islice(table.turns(), SEAT_TURNS)]
        )

    def _seats(self, player: str, game: Game) -> list[Player]:
        return [
            self._entry.players[player](
                spec, game.settings, game.worlds, Stream(self._seed, Purpose.PLAYER, i)
            )
            for i, spec in enumerate(game.agents)
        ]

    @property
    def _is_grid(self) -> bool:
        return isinstance(self._build(1).game, GridEngine)

    def gives_each_thing_once(self) -> str:
        """What only one agent can have goes to exactly one."""
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
        """The contests of each kind of player, with many agents to make them likely."""
        played = []
        for player in self._entry.players:
            engine = self._crowded()
            played.append(Contests(engine, self._seats(player, engine)))
            played[-1].play(TURNS)
        return played

    def _crowded(self) -> Any:
        """Return the bare engine, as full of agents as there is room, up to a limit."""
        own, model = self._settings.agents, type(self._settings)
        for agents in range(max(CROWD, own), own, -1):
            changes = {"acting": "simultaneous", "agents": agents}
            with suppress(ConfigError, ValidationError):  # no room, or never so many
                settings = model.model_validate(self._settings.model_dump() | changes)
                return self._entry.build(settings, CONTEST_WORLDS, self._seed)
        settings = self._settings.model_copy(update={"acting": "simultaneous"})
        return self._entry.build(settings, CONTEST_WORLDS, self._seed)


def _go_back(
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
            raise Broken(f"column '{name}' of the snapshot differs {when}")


def _play_out(game: Game, playback: Playback, limit: int) -> int | None:
    """Play until the only world has closed its first episode; return its length."""
    live = np.ones(len(game.agents), bool)
    for turn in range(limit):
        closing = not live.any()
        said = playback.turn(turn).said
        if closing:
            return turn
        live &= ~(said["terminated"] | said["truncated"])[0]
    return None


def _equal_seats(game: Game) -> list[tuple[str, list[int]]]:
    """Return the agents of each role that has several, all of the same spec."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, spec in enumerate(game.agents):
        alike[spec.role, tuple(spec.parts.items()), spec.actions].append(i)
    return [(key[0], members) for key, members in alike.items() if len(members) > 1]


def _compare_seats(paid: Array, members: list[int], who: str) -> None:
    """Raise `Broken` if one seat fares better or worse than the mean of all.

    Worlds differ by their chance and turns by the order of acting, which is one for all
    worlds; the noise is that of both.
    """
    apart = paid.astype(np.float64)
    apart -= apart.mean(axis=2, keepdims=True)
    mean = apart.sum(axis=0).mean(axis=0)
    by_world = apart.sum(axis=0).var(axis=0, ddof=1) / apart.shape[1]
    by_turn = apart.mean(axis=1).var(axis=0, ddof=1) * len(apart)
    error = np.abs(mean) / np.maximum(np.sqrt(by_world + by_turn), 1e-6)
    worst = int(error.argmax())
    if error[worst] > SEAT_LIMIT:
        raise Broken(
            f"seat {members[worst]} of {who} gets {mean[worst]:+.3g} against the mean of "
            f"all seats, {error[worst]:.0f} standard errors"
        )
