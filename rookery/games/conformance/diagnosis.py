"""From a failed check to advice: the likely cause with its line, and what to do."""

from __future__ import annotations

from collections.abc import Callable

from rookery.games.conformance.causes import (
    fingerprints,
    random_uses,
    reductions,
    seat_uses,
    some,
    where_set,
)
from rookery.games.conformance.playback import Playback
from rookery.games.conformance.rehearsal import Rehearsal
from rookery.games.guard import GuardedGame

COLUMNS = "declare a column with grid.PerAgent, grid.PerWorld or grid.PerCell instead"
DRAWS = "use world.uniform(), world.chance(p), world.integers(n) or world.sprinkle(…)"
OBSERVATIONS = "return copies from observe(), such as array.copy()"
ONCE = "remove the thing in act(), with world.clear, before the next agent acts"


class Diagnosis:
    """Explains why the checks of one game have failed."""

    def __init__(self, game: GuardedGame, seed: int, rehearsal: Rehearsal) -> None:
        self._game, self._seed, self._rehearsal = game, seed, rehearsal
        self._sources = rehearsal.sources

    def advice(self, check: str) -> str:
        """Return the likely cause of a failed check and a remedy; '' if unknown."""
        if not self._rehearsal.is_users:
            return ""
        advisers: dict[str, Callable[[], str]] = {
            "repeats_itself": self._not_repeated,
            "keeps_worlds_apart": self._one_value_for_all,
            "restores_exactly": self._not_restored,
            "resets_completely": self._not_restored,
            "leaves_observations_unchanged": lambda: OBSERVATIONS,
            "treats_seats_equally": self._seats_differ,
            "gives_each_thing_once": lambda: ONCE,
        }
        return advisers[check]() if check in advisers else ""

    def _not_repeated(self) -> str:
        uses = random_uses(self._sources)
        if uses:
            return f"look at {some(uses)}; {DRAWS}"
        return self._state_outside()

    def _one_value_for_all(self) -> str:
        """Advise on one world that decides for another."""
        if self._rehearsal.drew:
            return self._not_repeated()
        uses = reductions(self._sources)
        if uses:
            return (
                f"one world decides for another, so look at {some(uses)}; use where=, "
                "np.where or a mask per world"
            )
        return self._not_repeated()

    def _state_outside(self) -> str:
        changed = self._rehearsal.changed
        if not changed:
            return ""
        names = where_set(self._sources, changed)
        cure = COLUMNS if self._rehearsal.engine is not None else "keep it in the snapshot"
        return f"{names} changes during play, and is neither reset nor saved; {cure}"

    def _not_restored(self) -> str:
        state = self._state_outside()
        if state or self._rehearsal.engine is not None:
            return state or self._not_repeated()
        names = self._unrestored()
        if not names:
            return self._not_repeated()
        return (
            f"look at {where_set(self._sources, names)}, which restore() leaves as it was"
        )

    def _unrestored(self) -> list[str]:
        """Return the attributes of a game that a snapshot does not bring back."""
        if not self._game.can_snapshot:
            return []
        playback = Playback(self._game, self._seed)
        playback.turns(0, 20)
        snapshot = {k: v.copy() for k, v in self._game.snapshot().items()}
        before = fingerprints("self", vars(self._game.game))
        playback.turns(20, 40)
        self._game.restore(snapshot)
        after = fingerprints("self", vars(self._game.game))
        return [name for name in after if before.get(name) != after[name]]

    def _seats_differ(self) -> str:
        uses = seat_uses(self._sources)
        advice = "treat all agents of a body alike, or give them different bodies"
        return f"look at {some(uses)}; {advice}" if uses else ""
