"""The conformance test for games, whether built-in, a user's own or foreign.

Each check is a sentence that must be true. A check plays the game, compares bit for bit
where it can, and reports what it found; a failing check does not stop the others, unless
the game cannot be played at all. What is legal but odd is reported as a note.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from pydantic import ValidationError

from rookery.errors import ConfigError, GameError, PlayerError, RookeryError
from rookery.games.base import Game
from rookery.games.conformance.causes import id_uses, random_uses, some
from rookery.games.conformance.diagnosis import Diagnosis
from rookery.games.conformance.fairness import Contests, compare_seats, equal_seats
from rookery.games.conformance.notes import notes
from rookery.games.conformance.playback import (
    Broken,
    Explained,
    Playback,
    PlayedTurn,
    compare,
    restore_turn,
)
from rookery.games.conformance.players import PlayerCheck
from rookery.games.conformance.rehearsal import Rehearsal
from rookery.games.gridworld import GridEngine
from rookery.games.guard import GuardedGame
from rookery.games.loop import GameLoop, Turn
from rookery.games.registry import Entry
from rookery.games.sources import Sources
from rookery.specs import Array

TURNS = 100
WORLDS = 4
CROWD = 12
HISTORIES = 8
CONTEST_WORLDS = 32
SEAT_WORLDS = 64
SEAT_TURNS = 400
ALMOST_ONE = 1 - 2.0**-32
ESSENTIAL = ("can_be_built", "keeps_its_contract")
"""Checks without which all others would fail for the same reason."""

REPEATING = (
    "repeats_itself",
    "keeps_worlds_apart",
    "restores_exactly",
    "resets_completely",
)
"""Checks that random numbers from elsewhere make fail."""
RANDOM = "the random numbers above"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    sentence: str
    result: str
    """`passed`, `failed`, `skipped`, or `note` for what is legal but odd."""
    detail: str


class Skipped(Exception):
    """A check does not apply; the message gives the reason."""


def check_game(entry: Entry, settings: Any, seed: int = 0) -> Iterator[Finding]:
    """Run all checks of a game, and yield their results one by one."""
    conformance = Conformance(entry, settings, seed)
    reasons: list[str] = []
    for name, method in vars(Conformance).items():
        if name.startswith("_"):
            continue
        sentence = (inspect.getdoc(method) or "").split("\n")[0]
        if name in REPEATING and RANDOM in reasons:
            yield Finding(sentence, "skipped", f"it fails because of {RANDOM}")
            continue
        finding = _run(conformance, name, sentence, reasons)
        yield finding
        if finding.result == "failed" and name == "draws_from_its_worlds":
            reasons.append(RANDOM)
        if finding.result == "failed" and name in ESSENTIAL:
            yield Finding("All other checks.", "skipped", "they need a game that plays")
            return
    for text in conformance._notes():
        if not any(text.split(" changes ")[0] in reason for reason in reasons):
            yield Finding("Legal, but odd:", "note", text)


def _run(conformance: Conformance, name: str, sentence: str, reasons: list[str]) -> Finding:
    """Run one check; a reason that was given before is not repeated."""
    try:
        with warnings.catch_warnings():
            # Of numpy, in the user's code; the rehearsal makes a note of them.
            warnings.simplefilter("ignore", RuntimeWarning)
            return Finding(sentence, "passed", getattr(conformance, name)())
    except Skipped as skipped:
        return Finding(sentence, "skipped", str(skipped))
    except Explained as failure:
        detail = reason = str(failure)
    except Broken as failure:
        reason = conformance._diagnosis.advice(name)
        detail = f"{failure}: {reason}" if reason else str(failure)
    except RookeryError as failure:
        detail = reason = str(failure)
    if reason in reasons:
        return Finding(sentence, "failed", "for the same reason as above")
    if reason:
        reasons.append(reason)
    return Finding(sentence, "failed", detail)


class Conformance:
    """All checks of one game with its settings; each public method is a check."""

    def __init__(self, entry: Entry, settings: Any, seed: int = 0) -> None:
        self._entry, self._settings, self._seed = entry, settings, seed
        self._refused: set[str] = set()
        """Players that cannot be used in other checks."""

    def _build(self, worlds: int, first_world: int = 0, **changes: Any) -> GuardedGame:
        settings = self._settings.model_copy(update=changes)
        return self._entry.build_guarded(settings, worlds, self._seed, first_world)

    def _playback(self, worlds: int, first_world: int = 0) -> Playback:
        return Playback(self._build(worlds, first_world), self._seed, first_world)

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        return Diagnosis(self._build(WORLDS), self._seed, self._rehearsal)

    @cached_property
    def _rehearsal(self) -> Rehearsal:
        """The first time that the game is played; what it did is watched."""
        rehearsal = Rehearsal(lambda: self._build(WORLDS), self._seed)
        rehearsal.play(3 * TURNS)
        return rehearsal

    def _notes(self) -> Iterator[str]:
        return notes(self._build(1), self._entry, self._rehearsal)

    @property
    def _players(self) -> list[str]:
        return [name for name in self._entry.players if name not in self._refused]

    def can_be_built(self) -> str:
        """The game can be built."""
        game = self._build(1)
        roles = list(dict.fromkeys(spec.role for spec in game.agents))
        return f"{len(game.agents)} agents: {', '.join(roles)}"

    def keeps_its_contract(self) -> str:
        """Everything the game returns has the declared shape and type."""
        return f"{self._rehearsal.turns} turns in {WORLDS} worlds"

    def draws_from_its_worlds(self) -> str:
        """All random numbers are those of the world."""
        drew = self._rehearsal.drew
        if drew:
            uses = some(random_uses(self._rehearsal.sources)) or f"{drew[0]} was used"
            raise Broken(
                f"{uses}: use world.uniform(), world.chance(p), world.integers(n) or "
                "world.sprinkle(…), so that the same seed gives the same game"
            )
        return f"{self._rehearsal.turns} turns"

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
        first = restore_turn(TURNS)
        playback.turns(0, first)
        snapshot = playback.game.snapshot()
        kept = {name: array.copy() for name, array in snapshot.items()}
        turns_played = playback.turns(first, first + TURNS)
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

    def has_working_players(self) -> str:
        """Every player chooses one legal action per world, from what it may know."""
        problems: dict[str, tuple[str, list[str]]] = {}
        """What is wrong, and with which players, by the text without its numbers."""
        for name in self._entry.players:
            try:
                PlayerCheck(self._entry, name, self._build, self._seed).run(TURNS, WORLDS)
            except (Broken, PlayerError) as failure:
                self._refused.add(name)
                text = str(failure).rstrip(".")
                cause = re.sub(r"(turn|world|action) \d+|agent '[^']*'", "", text)
                problems.setdefault(cause, (text, []))[1].append(name)
        if problems:
            texts = [f"{', '.join(names)}: {text}" for text, names in problems.values()]
            raise Broken("; ".join(texts))
        return f"{TURNS} turns in {WORLDS} worlds each: {', '.join(self._entry.players)}"

    def treats_seats_equally(self) -> str:
        """The same player does equally well in all seats of a role, within noise."""
        game = self._build(1)
        seats = equal_seats(game)
        if not game.fair:
            raise Skipped("the rules of a foreign game may favour a seat")
        if not seats:
            raise Skipped("no two agents have the same role, observations and actions")
        if getattr(self._settings, "order", "shuffled") == "fixed":
            raise Skipped("order is fixed, which favours the first agent")
        if self._is_grid:
            for contests in self._contests:
                contests.check_winners()
        for player in self._players:
            rewards = self._rewards(player)
            for role, members in seats:
                label = f"'{role}' played by {player}"
                try:
                    compare_seats(rewards[..., members], members, label)
                except Broken as failure:
                    raise self._explained(failure, player) from failure
        players = ", ".join(self._players)
        return f"{SEAT_TURNS} turns in {SEAT_WORLDS} worlds each with {players}"

    def _explained(self, failure: Broken, player: str) -> Broken:
        """Return an advantage of a seat with its cause, if that can be the player.

        Random play comes first: what is unfair only with a later player can be due to
        what that player makes of its agent's id.
        """
        kind = self._entry.players[player]
        uses = id_uses(Sources(kind)) if isinstance(kind, type) else []
        if not uses or player == "random":
            return failure
        return Explained(
            f"{failure}, while random play is fair: look at {some(uses)} in the player: "
            "ids are text, such as '0', and never equal to a number; if that is right, the "
            "game favours a seat"
        )

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
        for player in self._players:
            contests = Contests(self._build_crowded())
            try:
                for _ in self._play(GuardedGame(contests, self._entry.name), player, TURNS):
                    pass
            except GameError as error:
                crowd = len(contests.agents)
                if crowd == self._settings.agents:
                    raise
                raise Broken(
                    f"with game.agents={crowd}, {str(error).rstrip('.')}: if the game is "
                    f"only for {self._settings.agents}, say so in its Settings: agents: "
                    f"int = Field({self._settings.agents}, ge=1, "
                    f"le={self._settings.agents})"
                ) from error
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
