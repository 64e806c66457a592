"""Evaluations, recordings and probes during training, run at boundaries.

The actor runs them between rounds, in a separate game with its own random numbers, so
they do not affect training.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from itertools import combinations
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np

from rookery.actor.parts import RunParts
from rookery.actor.policies import PublishedWeights, Weights, exploration_of
from rookery.errors import ProbeError
from rookery.evaluation.play import Match, Seat, play_match
from rookery.evaluation.probes import PROBE_SEED, ProbeGame, probe_of
from rookery.evaluation.recordings import Recording
from rookery.evaluation.trained import TrainedAgent
from rookery.protocol.arena import MATCHES
from rookery.specs import Array

MOST_TRACEBACK = 8192
EVALUATION_SEED = 2**62
"""Added to the seed, so that evaluations do not play the games agents are trained in."""


class Evaluations:
    """Runs each evaluation, recording and probe of a run once."""

    def __init__(
        self,
        parts: RunParts,
        published: PublishedWeights,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._entry, self._agents = parts.entry, parts.agents
        self._config = config = parts.process_spec.config
        self._folder = Path(parts.process_spec.folder) / "recordings"
        self._counters, self._reports = parts.arena.counters, parts.arena.match_reports()
        self._published, self._beat = published, beat
        self._evaluate_every = config.evaluate.every_rounds
        self._record_every = config.record.every_rounds
        self._probe = probe_of(config)
        self._probe_every = config.probe.every_rounds if self._probe else 0
        self._cut = 0
        """The number of episodes cut off at this boundary."""

    def are_due(self, boundary: int) -> bool:
        """Whether anything is due at a boundary and has not been run."""
        is_due = (
            _is_due(self._evaluate_every, boundary)
            or _is_due(self._record_every, boundary)
            or self._probe_is_due(boundary)
        )
        return is_due and self._counters.load(MATCHES) < self._number_of(boundary)

    def _probe_is_due(self, boundary: int) -> bool:
        """Whether to call the probe; before the first round too, to catch mistakes."""
        return self._probe_every > 0 and boundary % self._probe_every == 0

    def _number_of(self, boundary: int) -> int:
        """Return at how many boundaries up to this one something was due."""
        periods = [self._evaluate_every, self._record_every, self._probe_every]
        periods = [period for period in periods if period]
        count = int(self._probe_every > 0)  # boundary 0
        # Inclusion and exclusion: boundaries at which several are due count once.
        for size in range(1, len(periods) + 1):
            for subset in combinations(periods, size):
                count += (-1) ** (size + 1) * (boundary // lcm(*subset))
        return count

    def run(self, boundary: int, steps: Array) -> None:
        """Run everything that is due at a boundary, and report it.

        Args:
            boundary: which one.
            steps: (agents,) each agent's steps so far, which exploration depends on.
        """
        is_exact = self._config.schedule != "async"
        weights = self._published.exact(boundary) if is_exact else self._published.newest()
        report: dict[str, Any] = {"round": boundary, "evaluations": {}}
        self._cut = 0
        if _is_due(self._evaluate_every, boundary):
            for name, greedy in (("greedy", True), ("as_trained", False)):
                seats = self._seats(weights, steps, greedy)
                match = self._play(boundary, seats, episodes=self._config.worlds)
                summary = {"episodes": len(match.episodes), **match.summary()}
                report["evaluations"][name] = summary
        if _is_due(self._record_every, boundary):
            seats = self._seats(weights, steps, greedy=True)
            match = self._play(boundary, seats, episodes=1, record=True)
            report["unrecorded"] = self._save(match.recordings[0], boundary)
        if self._probe_is_due(boundary):
            report["probe"] = self._call_probe(boundary, weights)
        if self._cut:
            report["cut"] = self._cut
        number = self._number_of(boundary)
        self._reports.write(number, report)
        self._counters.store(MATCHES, number)

    def _save(self, recording: Recording, boundary: int) -> str:
        """Write a recording; return '', or the reason why it could not be written."""
        try:
            self._folder.mkdir(exist_ok=True)
            recording.save(self._folder / f"round-{boundary}.safetensors")
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _call_probe(self, boundary: int, weights: Weights) -> dict[str, Any]:
        """Call the probe; an error ends the run only before the first round."""
        assert self._probe is not None
        copies = Weights({i: array.copy() for i, array in weights.arrays.items()})
        seats = self._seats(copies, np.zeros(len(self._agents)), greedy=True)
        players = {agent.id: seat for agent, seat in zip(self._agents, seats, strict=True)}
        seed = (self._config.seed + PROBE_SEED + boundary) % 2**63
        config = self._config.model_copy(update={"seed": seed})
        game = ProbeGame(self._entry, config, self._agents, boundary, self._beat)
        try:
            return {"figures": self._probe.call(players, game, boundary)}
        except ProbeError as error:
            if boundary == 0:
                raise
            trace = "".join(traceback.format_exception(error))
            return {"line": str(error), "traceback": trace[-MOST_TRACEBACK:]}
        finally:
            self._cut += game.cut

    def _seats(self, weights: Weights, steps: Array, greedy: bool) -> list[Seat]:
        """Return the player of each agent: trained, or scripted as in training."""
        seats: list[Seat] = []
        for agent in self._agents:
            if agent.is_scripted:
                seats.append(agent.player or "random")
                continue
            number = agent.number
            exploration = 0.0 if greedy else exploration_of(agent, int(steps[number]))
            named = agent.learner.named_weights(agent, weights.arrays[number])
            worlds = self._config.worlds
            seats.append(
                TrainedAgent(
                    agent, named, "trained", exploration, not greedy, worlds=worlds
                )
            )
        return seats

    def _play(self, boundary: int, seats: list[Seat], **options: Any) -> Match:
        seed = (self._config.seed + EVALUATION_SEED + boundary) % 2**63
        config = self._config.model_copy(update={"seed": seed})
        match = play_match(
            self._entry, config, seats, round_number=boundary, beat=self._beat, **options
        )
        self._cut += match.cut
        return match


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number > 0 and number % every == 0
