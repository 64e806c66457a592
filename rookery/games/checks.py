"""The conformance test for games: ours, a user's grid game, and foreign ones.

Each check is a sentence that must hold. A check plays the game, compares bit for bit
wherever it can, and says what it saw; a failing one does not stop the others.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.errors import ConfigError, RookeryError
from rookery.games.base import Game
from rookery.games.catalog import Entry
from rookery.games.contests import double_takings
from rookery.games.gridworld import GridEngine
from rookery.games.guard import Guarded
from rookery.games.rehearsal import Broken, Moment, Rehearsal, compare
from rookery.games.table import Table
from rookery.seeding import Purpose, Stream
from rookery.specs import Array

TURNS = 100
WORLDS = 4
CROWD = 12
HISTORIES = 8
SEAT_WORLDS = 64
SEAT_TURNS = 400
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

    def _build(self, worlds: int, first_world: int = 0, **changes: Any) -> Game:
        settings = self._settings.model_copy(update=changes)
        game = self._entry.build(settings, worlds, self._seed, first_world)
        return Guarded(game, self._entry.name)

    def _rehearse(self, worlds: int, first_world: int = 0) -> Rehearsal:
        game = self._build(worlds, first_world)
        return Rehearsal(game, self._seed, first_world)

    def keeps_its_contract(self) -> str:
        """What the game says has the declared shape and type, turn after turn."""
        self._rehearse(WORLDS).turns(0, 3 * TURNS)
        return f"{3 * TURNS} turns in {WORLDS} worlds"

    def repeats_itself(self) -> str:
        """The same seed and actions give the same game."""
        first, second = self._rehearse(WORLDS), self._rehearse(WORLDS)
        for turn in range(2 * TURNS):
            compare(first.turn(turn), second.turn(turn), None, "of a second run")
        return f"{2 * TURNS} turns, bit for bit"

    def worlds_do_not_touch(self) -> str:
        """A world among many plays like the same world alone."""
        many = self._rehearse(WORLDS).turns(0, 2 * TURNS)
        for world in range(WORLDS):
            alone = self._rehearse(1, first_world=world)
            for moment in many:
                compare(moment, alone.turn(moment.turn), world, "when it plays alone")
        return f"{WORLDS} worlds of {2 * TURNS} turns, bit for bit"

    def leaves_what_it_said(self) -> str:
        """What the game handed out does not change afterwards."""
        rehearsal = self._rehearse(WORLDS)
        handed_out: list[tuple[Moment, tuple[int, ...], Any]] = []
        for turn in range(TURNS // 5):
            for kept, phase, seen in handed_out:
                now = Moment(kept.turn)
                now.hear(rehearsal.game, phase, seen)
                compare(kept, now, None, "when looked at a turn later")
            handed_out = []
            for phase in rehearsal.game.begin_turn():
                seen = rehearsal.game.observe(phase)
                handed_out.append((Moment(turn), phase, seen))
                handed_out[-1][0].hear(rehearsal.game, phase, seen)
                rehearsal.game.act(phase, rehearsal.actions(turn, phase, seen))
            rehearsal.game.end_turn()
        return f"{TURNS // 5} turns"

    def goes_back_exactly(self) -> str:
        """After restoring a snapshot, the same actions bring the same again."""
        rehearsal = self._rehearse(WORLDS)
        if not rehearsal.game.can_snapshot:
            raise Skipped("the game cannot be snapshot")
        rehearsal.turns(0, TURNS // 2)
        snapshot = rehearsal.game.snapshot()
        kept = {name: array.copy() for name, array in snapshot.items()}
        moments = rehearsal.turns(TURNS // 2, TURNS // 2 + TURNS)
        end = rehearsal.game.snapshot()
        _go_back(rehearsal, kept, moments, end, "after going back")
        _go_back(self._rehearse(WORLDS), kept, moments, end, "in a new game")
        return f"{TURNS} turns, in the same game and in a new one"

    def forgets_the_last_episode(self) -> str:
        """After a reset nothing of the old episode remains."""
        changes = {"order": "fixed"} if hasattr(self._settings, "order") else {}
        first = self._second_episode(0, changes)
        for history in range(1, HISTORIES):
            for one, other in zip(
                first, self._second_episode(history, changes), strict=True
            ):
                compare(one, other, None, "after another first episode")
        return f"{TURNS} turns after each of {HISTORIES} first episodes"

    def _second_episode(self, history: int, changes: Mapping[str, Any]) -> list[Moment]:
        """Play a first episode that depends on `history`, then one that does not."""
        game = self._build(1, **changes)
        _play_out(game, Rehearsal(game, history))
        again = Rehearsal(game, self._seed)
        return again.turns(0, TURNS)

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
        for player in self._entry.players:
            sums = self._sums(player)
            for role, members in seats.items():
                _compare_seats(sums[:, members], members, f"'{role}' played by {player}")
        players = ", ".join(self._entry.players)
        return f"{SEAT_TURNS} turns in {SEAT_WORLDS} worlds each with {players}"

    def _sums(self, player: str) -> Array:
        """Return what each agent gets in each world when all are the same player."""
        game = self._build(SEAT_WORLDS)
        seats = [
            self._entry.players[player](
                spec, game.settings, game.worlds, Stream(self._seed, Purpose.PLAYER, i)
            )
            for i, spec in enumerate(game.agents)
        ]
        sums = np.zeros((game.worlds, len(seats)))
        for turn in Table(game, seats).turns():
            sums += turn.outcome.rewards
            if turn.number == SEAT_TURNS:
                break
        return sums

    def gives_each_thing_once(self) -> str:
        """What only one agent can have goes to exactly one."""
        game = self._build(1)
        if not (isinstance(game, Guarded) and isinstance(game.game, GridEngine)):
            raise Skipped("only grid games have things to take")
        contests = double_takings(self._crowded(), self._seed, 2 * TURNS)
        if not contests:
            raise Skipped("no two agents went for the same thing")
        return f"{contests} contests"

    def _crowded(self) -> Any:
        """Return the bare engine with as many agents as make contests likely."""
        changes: dict[str, Any] = {"acting": "simultaneous"}
        for agents in (CROWD, CROWD // 2, self._settings.agents):
            settings = self._settings.model_copy(update={**changes, "agents": agents})
            try:
                return self._entry.build(settings, SEAT_WORLDS, self._seed)
            except ConfigError as error:
                problem = error
        raise problem


def _go_back(
    rehearsal: Rehearsal,
    snapshot: Mapping[str, Array],
    moments: list[Moment],
    end: Mapping[str, Array],
    when: str,
) -> None:
    rehearsal.game.restore(snapshot)
    for moment in moments:
        compare(moment, rehearsal.turn(moment.turn), None, when)
    for name, array in rehearsal.game.snapshot().items():
        if array.tobytes() != end[name].tobytes():
            raise Broken(f"column '{name}' of the snapshot differs {when}")


def _play_out(game: Game, rehearsal: Rehearsal) -> None:
    """Play until the only world has closed its first episode."""
    live = np.ones(len(game.agents), bool)
    for turn in range(1_000_000):
        closing = not live.any()
        said = rehearsal.turn(turn).said
        if closing:
            return
        live &= ~(said["terminated"] | said["truncated"])[0]
    raise Skipped("no episode ended within a million turns")


def _equal_seats(game: Game) -> dict[str, list[int]]:
    """Return the agents of each role that has several, all of the same spec."""
    by_role: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, spec in enumerate(game.agents):
        by_role[spec.role, tuple(spec.parts.items()), spec.actions].append(i)
    return {key[0]: members for key, members in by_role.items() if len(members) > 1}


def _compare_seats(sums: Array, members: list[int], who: str) -> None:
    """Raise `Broken` if one seat fares better or worse than the mean of all."""
    apart = sums - sums.mean(axis=1, keepdims=True)
    noise = apart.std(axis=0, ddof=1) / np.sqrt(len(apart))
    error = np.abs(apart.mean(axis=0)) / np.maximum(noise, 1e-9)
    worst = int(error.argmax())
    if error[worst] > SEAT_LIMIT:
        raise Broken(
            f"seat {members[worst]} of {who} gets {apart.mean(axis=0)[worst]:+.3g} "
            f"against the mean of all seats, {error[worst]:.0f} standard errors"
        )
