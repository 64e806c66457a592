"""A run from start to end: train, write down, evaluate, record, and leave a checkpoint."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save as save_bytes

from rookery.acting import exploration_of
from rookery.checkpoints import checkpoints_in, save_checkpoint
from rookery.config.run import Config
from rookery.config.toml import write_config
from rookery.disk import write_whole
from rookery.games.catalog import Entry
from rookery.monitoring.metrics import EPISODES, EVALUATIONS, METRICS, RunLog, finite
from rookery.origins import origins_of
from rookery.playing import Match, Seat, agents_of, play_match
from rookery.stopping import StopFlag, Stopped
from rookery.trained import TrainedAgent
from rookery.training import Round, Training

EVALUATION_SEED = 2**62
"""Added to the seed, so that evaluations are other games than those trained in."""


class Session:
    """One run of training, with everything it leaves in its folder."""

    def __init__(
        self, entry: Entry, config: Config, folder: Path, stop: StopFlag | None = None
    ) -> None:
        self.entry, self.config, self.folder = entry, config, folder
        origins = origins_of(config, agents_of(entry, config))
        self.training = Training(entry, config, origins, stop)
        write_config(config, folder / "config.toml")
        self.log = RunLog(folder)
        self.done = 0
        """The last round that is complete."""
        self._started = time.perf_counter()

    def run(self, show: Callable[[Round], None]) -> None:
        """Train all rounds; leave the last complete one behind, whatever happens."""
        self.log.event("start", rounds=self.config.rounds, seed=self.config.seed)
        try:
            for one in self.training.rounds():
                self._record(one)
                self.done = one.number
                self._keep(one.number)
                show(one)
        except (Stopped, KeyboardInterrupt):
            self.log.event("stop", round=self.done)
            raise
        finally:
            if self.done:
                self._finish()
            self.log.event("end", round=self.done)
            self.log.close()
            self.training.close()

    # Writing down.

    def _record(self, one: Round) -> None:
        agents = {
            member.id: finite(
                {**one.played.metrics[member.id], **one.learned.metrics.get(member.id, {})}
            )
            for member in self.training.members
        }
        times = {"play": one.played.seconds, "learn": one.learned.seconds}
        line = {"round": one.number, "seconds": one.seconds, **times, "agents": agents}
        self.log.line(METRICS, line)
        for agent, figures in agents.items():
            shown = {f"{agent}/{k}": v for k, v in figures.items() if v is not None}
            self.log.scalars(one.number, shown)
        self._record_episodes(one)

    def _record_episodes(self, one: Round) -> None:
        ids = [member.id for member in self.training.members]
        for episode in one.played.episodes:
            counts = {
                name: dict(zip(ids, count.tolist(), strict=True))
                for name, count in episode.counts.items()
            }
            returns = dict(zip(ids, episode.returns.tolist(), strict=True))
            about = {"round": one.number, "world": episode.world, "episode": episode.number}
            line = {**about, "turns": episode.turns, "returns": returns, "counts": counts}
            self.log.line(EPISODES, line)
        if one.played.episodes:
            mean = np.mean([episode.returns for episode in one.played.episodes], axis=0)
            self.log.scalars(
                one.number, {f"{i}/return": x for i, x in zip(ids, mean, strict=True)}
            )

    # Keeping.

    def _keep(self, number: int) -> None:
        """Do what is due after a round: weights, evaluation, recording, checkpoint."""
        config = self.config
        if _is_due(config.checkpoints.weights_every_rounds, number):
            self._save_weights(number)
        if _is_due(config.evaluate.every_rounds, number):
            self._evaluate(number)
        if _is_due(config.record.every_rounds, number):
            self._record_game(number)
        if _is_due(config.checkpoints.every_rounds, number):
            self._save_checkpoint(number)

    def _finish(self) -> None:
        self._save_weights(self.done)
        self._save_checkpoint(self.done)

    def agents(self, number: int, greedy: bool = True) -> list[Seat]:
        """Return who plays as after a round: trained agents, and scripted players."""
        seats: list[Seat] = []
        weights = self.training.weights(number)
        for member in self.training.members:
            if member.algorithm is None:
                seats.append(member.player or "random")
                continue
            steps = int(self.training.actor.life.steps[member.plan.number])
            exploration = 0.0 if greedy else exploration_of(member, steps)
            named = self._named(member.plan.number, weights)
            seats.append(TrainedAgent(member, named, "trained", exploration))
        return seats

    def _named(self, number: int, weights: Mapping[int, Any]) -> dict[str, Any]:
        member = self.training.members[number]
        assert member.algorithm is not None
        return member.algorithm.rule.named_weights(member.plan, weights[number])

    def _play(self, number: int, greedy: bool, **more: Any) -> Match:
        """Play in a game of its own, with numbers of its own."""
        seed = (self.config.seed + EVALUATION_SEED + number) % 2**63
        config = self.config.model_copy(update={"seed": seed})
        seats = self.agents(number, greedy)
        return play_match(self.entry, config, seats, **more)

    def _evaluate(self, number: int) -> None:
        for players, greedy in (("greedy", True), ("as_trained", False)):
            match = self._play(number, greedy, episodes=self.config.worlds)
            summary = match.summary()
            line = {"round": number, "players": players, "episodes": len(match.episodes)}
            self.log.line(EVALUATIONS, {**line, **summary})
            self.log.scalars(number, {f"evaluation/{players}": summary["mean"]})

    def _record_game(self, number: int) -> None:
        match = self._play(number, True, episodes=1, record=True)
        folder = self.folder / "recordings"
        folder.mkdir(exist_ok=True)
        match.recordings[0].save(folder / f"round-{number}.safetensors")

    def _save_weights(self, number: int) -> None:
        folder = self.folder / "weights"
        folder.mkdir(exist_ok=True)
        weights = self.training.weights(number)
        arrays = {
            f"{self.training.members[i].id}/{name}": array.copy()
            for i in weights
            for name, array in self._named(i, weights).items()
        }
        partial = folder / ".partial"
        write_whole(partial, save_bytes(arrays))
        partial.rename(folder / f"round-{number}.safetensors")

    def _save_checkpoint(self, number: int) -> None:
        training = self.training
        files = {
            f"agent-{member.plan.number}": training.named_state(member, number)
            for member in training.members
            if member.algorithm is not None
        }
        files["actor"] = dict(training.arena.snapshots().read(number))
        hashes = files["actor"]["life/hashes"]
        rows = {
            member.id: hashes[i].tobytes().hex()
            for i, member in enumerate(training.members)
        }
        about = {"rows": rows, "torch": torch.__version__, "schedule": self.config.schedule}
        folder = self.folder / "checkpoints"
        save_checkpoint(folder, number, files, about)
        self.log.event("checkpoint", round=number)
        for old in checkpoints_in(folder)[self.config.checkpoints.keep :]:
            shutil.rmtree(old)


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number % every == 0
