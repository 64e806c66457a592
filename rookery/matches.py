"""Matches during training: evaluations and recordings, played at borders.

Whoever plays the rounds plays these, too, in a game of its own with numbers of its own, so
that training is not touched by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from pathlib import Path
from typing import Any

from rookery.acting import exploration_of
from rookery.briefs import Brief
from rookery.company import Member
from rookery.games.catalog import Entry
from rookery.memory.arena import MATCHES, Arena
from rookery.playing import Match, Seat, play_match
from rookery.recordings import Recording
from rookery.specs import Array
from rookery.trained import TrainedAgent
from rookery.weights import Published, Weights

EVALUATION_SEED = 2**62
"""Added to the seed, so that evaluations are other games than those trained in."""


class Matches:
    """Plays the evaluations and recordings of a run, each once."""

    def __init__(
        self,
        entry: Entry,
        brief: Brief,
        members: Sequence[Member],
        arena: Arena,
        published: Published,
    ) -> None:
        self._entry, self._config, self._members = entry, brief.config, members
        self._folder = Path(brief.folder) / "recordings"
        self._words, self._reports = arena.words, arena.match_reports()
        self._published = published
        self._evaluate_every = brief.config.evaluate.every_rounds
        self._record_every = brief.config.record.every_rounds

    def are_due(self, border: int) -> bool:
        """Whether something is to be played at a border that has not been yet."""
        due = _is_due(self._evaluate_every, border) or _is_due(self._record_every, border)
        return due and self._words.load(MATCHES) < self._count(border)

    def _count(self, border: int) -> int:
        """Return at how many borders up to this one something was due."""
        a, b = self._evaluate_every, self._record_every
        if not (a and b):
            return border // (a or b)
        return border // a + border // b - border // lcm(a, b)

    def play(self, border: int, steps: Array) -> None:
        """Play what is due at a border; agents have taken so many steps."""
        exact = self._config.schedule != "async"
        weights = self._published.exact(border) if exact else self._published.newest()
        about: dict[str, Any] = {"round": border, "evaluations": {}}
        if _is_due(self._evaluate_every, border):
            for players, greedy in (("greedy", True), ("as_trained", False)):
                seats = self._seats(weights, steps, greedy)
                match = self._match(border, seats, episodes=self._config.worlds)
                found = {"episodes": len(match.episodes), **match.summary()}
                about["evaluations"][players] = found
        if _is_due(self._record_every, border):
            seats = self._seats(weights, steps, greedy=True)
            match = self._match(border, seats, episodes=1, record=True)
            about["unrecorded"] = self._keep(match.recordings[0], border)
        number = self._count(border)
        self._reports.write(number, about)
        self._words.store(MATCHES, number)

    def _keep(self, recording: Recording, border: int) -> str:
        """Write a recording; return why that was not possible, '' if it was."""
        try:
            self._folder.mkdir(exist_ok=True)
            recording.save(self._folder / f"round-{border}.safetensors")
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _seats(self, weights: Weights, steps: Array, greedy: bool) -> list[Seat]:
        """Return who plays: trained agents, and scripted players."""
        seats: list[Seat] = []
        for member in self._members:
            if member.algorithm is None:
                seats.append(member.player or "random")
                continue
            number = member.plan.number
            exploration = 0.0 if greedy else exploration_of(member, int(steps[number]))
            rule = member.algorithm.rule
            named = rule.named_weights(member.plan, weights.arrays[number])
            seats.append(TrainedAgent(member, named, "trained", exploration))
        return seats

    def _match(self, border: int, seats: list[Seat], **more: Any) -> Match:
        seed = (self._config.seed + EVALUATION_SEED + border) % 2**63
        config = self._config.model_copy(update={"seed": seed})
        return play_match(self._entry, config, seats, **more)


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number > 0 and number % every == 0
