"""Evaluations, recordings and probes during training, run at boundaries.

The actor runs them between rounds, in a separate game with its own random numbers, so
they do not affect training.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rookery.actor.parts import RunParts
from rookery.actor.policies import PublishedWeights, Weights, exploration_of
from rookery.config.run import Config
from rookery.errors import ProbeError
from rookery.evaluation.play import Match, Seat, play_match
from rookery.evaluation.probes import ProbeGame, probe_of
from rookery.evaluation.recordings import Recording
from rookery.evaluation.trained import TrainedAgent
from rookery.protocol.arena import MATCHES
from rookery.rng import Purpose, keyed_seed
from rookery.specs import Array

MOST_TRACEBACK = 8192
RECORDINGS = "recordings"
"""The folder of recordings, and the name of a recording among what is due."""
PROBE = "probe"
EVALUATED = {"greedy": True, "as_trained": False}
"""The players of an evaluation, and whether they act greedily."""


def due_at(config: Config, boundary: int) -> set[str]:
    """Return what is due at a boundary: evaluations by players, RECORDINGS, PROBE.

    It depends on the number of the round alone, so that it can be changed on resume. A
    probe is also called before the first round, to catch mistakes.
    """
    due: set[str] = set()
    if boundary and _is_multiple(boundary, config.evaluate.every_rounds):
        due |= set(EVALUATED)
    if boundary and _is_multiple(boundary, config.record.every_rounds):
        due.add(RECORDINGS)
    if config.probe.code and _is_multiple(boundary, config.probe.every_rounds):
        due.add(PROBE)
    return due


def _is_multiple(number: int, every: int) -> bool:
    return every > 0 and number % every == 0


def recording_file(folder: Path, boundary: int) -> Path:
    """Return the file of the episode that is recorded at a boundary."""
    return folder / RECORDINGS / f"round-{boundary}.safetensors"


def evaluation_seed(seed: int, boundary: int) -> int:
    """Return the seed of a boundary's evaluations: not a game that agents train in."""
    return keyed_seed(seed, Purpose.EVALUATION, boundary)


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
        self._folder = Path(parts.process_spec.folder)
        self._counters, self._reports = parts.arena.counters, parts.arena.match_reports()
        self._published, self._beat = published, beat
        self._probe = probe_of(config)
        self._cut = 0
        """The number of episodes cut off at this boundary."""

    def are_due(self, boundary: int) -> bool:
        """Whether anything is due at a boundary and has not been run."""
        is_new = self._counters.load(MATCHES) <= boundary
        return is_new and bool(due_at(self._config, boundary))

    def mark_done(self, boundary: int) -> None:
        """Record that everything due up to a boundary has been run."""
        if self._counters.load(MATCHES) <= boundary:
            self._counters.store(MATCHES, boundary + 1)

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
        due = due_at(self._config, boundary)
        for name in filter(due.__contains__, EVALUATED):
            seats = self._seats(weights, steps, EVALUATED[name])
            match = self._play(boundary, seats, episodes=self._config.worlds)
            summary = {"episodes": len(match.episodes), **match.summary()}
            report["evaluations"][name] = summary
        if RECORDINGS in due:
            seats = self._seats(weights, steps, greedy=True)
            match = self._play(boundary, seats, episodes=1, record=True)
            report["unrecorded"] = self._save(match.recordings[0], boundary)
        if PROBE in due:
            report[PROBE] = self._call_probe(boundary, weights)
        if self._cut:
            report["cut"] = self._cut
        self._reports.write(boundary, report)

    def _save(self, recording: Recording, boundary: int) -> str:
        """Write a recording; return '', or the reason why it could not be written."""
        try:
            path = recording_file(self._folder, boundary)
            path.parent.mkdir(exist_ok=True)
            recording.save(path)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _call_probe(self, boundary: int, weights: Weights) -> dict[str, Any]:
        """Call the probe; an error ends the run only before the first round."""
        assert self._probe is not None
        copies = Weights({i: array.copy() for i, array in weights.arrays.items()})
        seats = self._seats(copies, np.zeros(len(self._agents)), greedy=True)
        players = {agent.id: seat for agent, seat in zip(self._agents, seats, strict=True)}
        seed = keyed_seed(self._config.seed, Purpose.PROBE, boundary)
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
        seed = evaluation_seed(self._config.seed, boundary)
        config = self._config.model_copy(update={"seed": seed})
        match = play_match(
            self._entry, config, seats, round_number=boundary, beat=self._beat, **options
        )
        self._cut += match.cut
        return match
