"""A run from start to end: train, write down what happens, and leave a checkpoint."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as save_bytes

from rookery.checkpoints import Checkpoint, newest_whole, prune, save_checkpoint
from rookery.config.run import Config
from rookery.config.toml import write_config
from rookery.disk import write_whole
from rookery.folders import CHECKPOINTS, RunLock
from rookery.games.catalog import Entry
from rookery.loading import one_line
from rookery.monitoring.metrics import (
    EPISODES,
    EVALUATIONS,
    INEXACT,
    METRICS,
    RunLog,
    finite,
)
from rookery.origins import origins_of
from rookery.playing import agents_of
from rookery.saving import about, differences, files_of, go_on_from_memory, restore
from rookery.stopping import StopFlag, Stopped
from rookery.training import MEMORY, Round, Training

ALARMS = ("stalled", INEXACT)
"""Events that a person should hear of at once."""


class Session:
    """One run of training, with everything it leaves in its folder."""

    def __init__(
        self,
        entry: Entry,
        config: Config,
        folder: Path,
        stop: StopFlag | None = None,
        resume: bool = False,
    ) -> None:
        self.config, self.folder = config, folder
        self._lock = RunLock(folder)
        self.log = RunLog(folder)
        try:
            self._build(entry, stop, resume)
        except BaseException as error:
            self._note_failure(error)
            self.log.close()
            self._lock.close()
            raise
        self.done = self.training.border or 0
        """The last round that is complete."""
        self._begun = self._saved = self.done
        self._saved_at = time.monotonic()
        self._evaluated = set(self.log.evaluated())

    def _build(self, entry: Entry, stop: StopFlag | None, resume: bool) -> None:
        """Make everything that a run needs, or bring it back."""
        config, folder = self.config, self.folder
        origins = {} if resume else origins_of(config, agents_of(entry, config))
        checkpoint = None
        if resume and not (folder / MEMORY).exists():
            checkpoint = newest_whole(folder / CHECKPOINTS)
        self.say: Callable[[str], None] = lambda line: None
        """Called at once with what a person should hear of."""
        self.training = Training(entry, config, origins, stop, folder, self._tell)
        if resume:
            self.training.warnings += self._go_on(checkpoint)
        else:
            write_config(config, folder / "config.toml")

    def _go_on(self, checkpoint: Checkpoint | None) -> list[str]:
        """Put the run where it ended; return what is worth a warning."""
        if checkpoint is None:  # its memory lies in files
            self.log.cut(self.log.last_round())
            go_on_from_memory(self.training, self.log.last_round())
            return []
        restore(self.training, checkpoint.files, checkpoint.manifest)
        self.log.cut(int(checkpoint.manifest["round"]))
        return [*checkpoint.warnings, *differences(checkpoint.manifest)]

    def run(self, show: Callable[[Round], None]) -> None:
        """Train all rounds; leave the last complete one behind, whatever happens."""
        about = {"rounds": self.config.rounds, "seed": self.config.seed}
        sizes = self.training.arena.sizes()
        self.log.event("start", "main", round=self.done, **about, bytes=sizes)
        try:
            for one in self.training.rounds():
                self._record(one)
                self.done = one.number
                self._keep(one.number)
                show(one)
        except (Stopped, KeyboardInterrupt):
            self.log.event("stop", round=self.done)
            raise
        except Exception as error:
            self._note_failure(error)
            raise
        finally:
            self._leave()

    def _note_failure(self, error: BaseException) -> None:
        """Keep the traceback of what ended the run; people are told one line."""
        said = "".join(traceback.format_exception(error))
        self.log.event("failure", line=one_line(error), traceback=said)

    def _leave(self) -> None:
        """End every process, keep what was learned, and let go of everything."""
        self.training.engine.close()
        self._record_matches(self.training.new_matches())
        if self.done > self._begun:
            self._save_weights(self.done)
        if self.done > self._saved:
            self._save_checkpoint(self.done)
        self.log.event("end", round=self.done)
        self.log.close()
        self.training.close()
        if self.done == self.config.rounds and (self.folder / MEMORY).exists():
            # Gone at once: half of it could not be gone on from.
            old = (self.folder / MEMORY).rename(self.folder / f".{MEMORY}")
            shutil.rmtree(old, ignore_errors=True)
        self._lock.close()

    # Writing down.

    def _tell(self, event: str, role: str = "main", **more: Any) -> str | None:
        """Write down what happened to a process; say what should not wait."""
        if event in ALARMS:
            self.say(f"warning: {more['line']}")
        return self.log.event(event, role, **more)

    def _record(self, one: Round) -> None:
        if one.played.interrupted:
            self._tell(
                INEXACT,
                "actor",
                round=one.number,
                line="the game cannot be brought back to where it was: open episodes were "
                "closed as truncated, and the run is marked as not exact.",
            )
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
        self._record_matches(one.matches)

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

    def _record_matches(self, matches: Sequence[Mapping[str, Any]]) -> None:
        for match in matches:
            if match["round"] in self._evaluated:
                continue  # written down before main was killed
            for players, found in match["evaluations"].items():
                line = {"round": match["round"], "players": players, **found}
                self.log.line(EVALUATIONS, line)
                name = f"evaluation/{players}"
                self.log.scalars(match["round"], {name: found["mean"]})

    # Keeping.

    def _keep(self, number: int) -> None:
        """Keep what is due after a round: weights, or a whole checkpoint.

        No round after the next starts before this is done, so what is read stays whole.
        """
        if _is_due(self.config.checkpoints.weights_every_rounds, number):
            self._save_weights(number)
        minutes = (time.monotonic() - self._saved_at) / 60
        by_time = 0 < self.config.checkpoints.every_minutes <= minutes
        if by_time or _is_due(self.config.checkpoints.every_rounds, number):
            self._save_checkpoint(number)

    def _save_weights(self, number: int) -> None:
        folder = self.folder / "weights"
        folder.mkdir(exist_ok=True)
        arrays = {
            f"{agent}/{name}": array.copy()
            for agent, named in self.training.named_weights(number).items()
            for name, array in named.items()
        }
        partial = folder / ".partial"
        write_whole(partial, save_bytes(arrays))
        partial.rename(folder / f"round-{number}.safetensors")

    def _save_checkpoint(self, number: int) -> None:
        folder = self.folder / CHECKPOINTS
        border = self.training.border_to_save(number)
        files = files_of(self.training, border)
        saved = save_checkpoint(folder, border, files, about(self.training, files))
        self._saved, self._saved_at = number, time.monotonic()
        self.log.event("checkpoint", round=number)
        prune(folder, saved, self.config.checkpoints.keep)


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number % every == 0
