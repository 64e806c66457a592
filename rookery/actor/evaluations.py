"""Matches during training: evaluations, recordings and probes, played at boundaries.

Whoever plays the rounds plays these, too, in a game of its own with numbers of its own, so
that training is not touched by them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from itertools import combinations
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np

from rookery.actor.policies import exploration_of
from rookery.actor.weights import PublishedWeights, Weights
from rookery.algorithms.base import Agent
from rookery.errors import ProbeError
from rookery.evaluation.play import Match, Seat, play_match
from rookery.evaluation.probes import PROBE_SEED, ProbeGame, probe_of
from rookery.evaluation.recordings import Recording
from rookery.evaluation.trained import TrainedAgent
from rookery.games.registry import Entry
from rookery.protocol.arena import MATCHES, Arena
from rookery.protocol.process_spec import ProcessSpec
from rookery.specs import Array

MOST_TRACEBACK = 8192
EVALUATION_SEED = 2**62
"""Added to the seed, so that evaluations are other games than those trained in."""


class Evaluations:
    """Plays the evaluations and recordings of a run, each once."""

    def __init__(
        self,
        entry: Entry,
        process_spec: ProcessSpec,
        agents: Sequence[Agent],
        arena: Arena,
        published: PublishedWeights,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._entry, self._config, self._agents = entry, process_spec.config, agents
        self._folder = Path(process_spec.folder) / "recordings"
        self._counters, self._reports = arena.counters, arena.match_reports()
        self._published, self._beat = published, beat
        self._evaluate_every = process_spec.config.evaluate.every_rounds
        self._record_every = process_spec.config.record.every_rounds
        self._probe = probe_of(process_spec.config)
        self._probe_every = process_spec.config.probe.every_rounds if self._probe else 0
        self._cut = 0
        """Episodes at this boundary that were cut off."""

    def are_due(self, boundary: int) -> bool:
        """Whether something is to be played at a boundary that has not been yet."""
        due = _is_due(self._evaluate_every, boundary) or _is_due(
            self._record_every, boundary
        )
        due = due or self._probe_is_due(boundary)
        return due and self._counters.load(MATCHES) < self._count(boundary)

    def _probe_is_due(self, boundary: int) -> bool:
        """Whether to call the probe; before the first round, too, to find mistakes."""
        return self._probe_every > 0 and boundary % self._probe_every == 0

    def _count(self, boundary: int) -> int:
        """Return at how many boundaries up to this one something was due."""
        every = [self._evaluate_every, self._record_every, self._probe_every]
        periods, count = [period for period in every if period], int(self._probe_every > 0)
        for size in range(1, len(periods) + 1):
            for some in combinations(periods, size):
                # Borders at which several are due were counted once for each.
                count += (-1) ** (size + 1) * (boundary // lcm(*some))
        return count

    def play(self, boundary: int, steps: Array) -> None:
        """Play what is due at a boundary; agents have taken so many steps."""
        exact = self._config.schedule != "async"
        weights = self._published.exact(boundary) if exact else self._published.newest()
        about: dict[str, Any] = {"round": boundary, "evaluations": {}}
        self._cut = 0
        if _is_due(self._evaluate_every, boundary):
            for players, greedy in (("greedy", True), ("as_trained", False)):
                seats = self._seats(weights, steps, greedy)
                match = self._match(boundary, seats, episodes=self._config.worlds)
                found = {"episodes": len(match.episodes), **match.summary()}
                about["evaluations"][players] = found
        if _is_due(self._record_every, boundary):
            seats = self._seats(weights, steps, greedy=True)
            match = self._match(boundary, seats, episodes=1, record=True)
            about["unrecorded"] = self._keep(match.recordings[0], boundary)
        if self._probe_is_due(boundary):
            about["probe"] = self._ask(boundary, weights)
        if self._cut:
            about["cut"] = self._cut
        number = self._count(boundary)
        self._reports.write(number, about)
        self._counters.store(MATCHES, number)

    def _keep(self, recording: Recording, boundary: int) -> str:
        """Write a recording; return why that was not possible, '' if it was."""
        try:
            self._folder.mkdir(exist_ok=True)
            recording.save(self._folder / f"round-{boundary}.safetensors")
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _ask(self, boundary: int, weights: Weights) -> dict[str, Any]:
        """Call the probe; a mistake ends the run before the first round, and not later."""
        assert self._probe is not None
        copies = Weights({i: array.copy() for i, array in weights.arrays.items()})
        seats = self._seats(copies, np.zeros(len(self._agents)), greedy=True)
        players = {m.id: seat for m, seat in zip(self._agents, seats, strict=True)}
        seed = (self._config.seed + PROBE_SEED + boundary) % 2**63
        config = self._config.model_copy(update={"seed": seed})
        game = ProbeGame(self._entry, config, self._agents, boundary, self._beat)
        try:
            return {"figures": self._probe.ask(players, game, boundary)}
        except ProbeError as error:
            if boundary == 0:
                raise
            found = "".join(traceback.format_exception(error))
            return {"line": str(error), "traceback": found[-MOST_TRACEBACK:]}
        finally:
            self._cut += game.cut

    def _seats(self, weights: Weights, steps: Array, greedy: bool) -> list[Seat]:
        """Return who plays: trained agents, and scripted players."""
        seats: list[Seat] = []
        for agent in self._agents:
            if agent.is_scripted:
                seats.append(agent.player or "random")
                continue
            number = agent.number
            exploration = 0.0 if greedy else exploration_of(agent, int(steps[number]))
            learner = agent.learner
            named = learner.named_weights(agent, weights.arrays[number])
            seats.append(TrainedAgent(agent, named, "trained", exploration, not greedy))
        return seats

    def _match(self, boundary: int, seats: list[Seat], **more: Any) -> Match:
        seed = (self._config.seed + EVALUATION_SEED + boundary) % 2**63
        config = self._config.model_copy(update={"seed": seed})
        about = {"round_number": boundary, "beat": self._beat, **more}
        match = play_match(self._entry, config, seats, **about)
        self._cut += match.cut
        return match


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number > 0 and number % every == 0
