"""Keeping what was learned: weights and checkpoints, when they are due and at the end.

A disk that is full does not end a run: what cannot be written is tried again when it is
due the next time, and older checkpoints stay.
"""

from __future__ import annotations

import time
from pathlib import Path

from rookery.printing import command
from rookery.runs.checkpoint_content import about, files_of
from rookery.runs.folder import CHECKPOINTS
from rookery.runs.log import SAVED, RunLog
from rookery.storage.arrays import to_bytes
from rookery.storage.checkpoints import prune, save_checkpoint
from rookery.storage.files import Attempts, remedy, replace_whole
from rookery.training.training import MEMORY, Training

WEIGHTS = "weights"


class Checkpointer:
    """Writes the weights and checkpoints of a run."""

    def __init__(
        self, folder: Path, training: Training, log: RunLog, attempt: Attempts
    ) -> None:
        self._folder, self._training = folder, training
        self._log, self._attempt = log, attempt
        self._config = training.config.checkpoints
        self._tried_at = time.monotonic()
        self.saved = 0
        """The round of the newest checkpoint."""
        self.seal = ""
        """The sum of the run's seal; '' if it has none."""
        self.inexact = ""
        """Why the run is not exact; '' if it is."""

    def keep(self, number: int) -> None:
        """Keep what is due after a round: weights, or a whole checkpoint.

        No round after the next starts before this is done, so what is read stays whole.
        """
        if _is_due(self._config.weights_every_rounds, number):
            self._try_weights(number)
        minutes = (time.monotonic() - self._tried_at) / 60
        by_time = 0 < self._config.every_minutes <= minutes
        if by_time or _is_due(self._config.every_rounds, number):
            self._try_checkpoint(number)

    def keep_last(self, number: int) -> str:
        """Keep the last complete round; return why it could not be, '' if it was."""
        kept = self._weights_file(number).exists() or self._try_weights(number)
        kept &= number <= self.saved or self._try_checkpoint(number)
        return "" if kept else self._lost(number)

    def _lost(self, number: int) -> str:
        reason = self._attempt.reason(CHECKPOINTS) or self._attempt.reason(WEIGHTS)
        there = "nothing is lost yet"
        if self.saved < number and not (self._folder / MEMORY).exists():
            there = f"the newest checkpoint is of round {self.saved}"
        return (
            f"round {number} could not be saved in {self._folder} ({reason}): {there}; "
            f"{remedy(reason)}, then: {command('resume', self._folder)}"
        )

    def _weights_file(self, number: int) -> Path:
        return self._folder / WEIGHTS / f"round-{number}.safetensors"

    def _try_weights(self, number: int) -> bool:
        return self._attempt(WEIGHTS, lambda: self._save_weights(number))

    def _save_weights(self, number: int) -> None:
        arrays = {
            f"{agent}/{name}": array
            for agent, named in self._training.named_weights(number).items()
            for name, array in named.items()
        }
        path = self._weights_file(number)
        path.parent.mkdir(exist_ok=True)
        replace_whole(path, to_bytes(arrays))

    def _try_checkpoint(self, number: int) -> bool:
        self._tried_at = time.monotonic()  # also if it fails: not again every round
        return self._attempt(CHECKPOINTS, lambda: self._save_checkpoint(number))

    def _save_checkpoint(self, number: int) -> None:
        folder = self._folder / CHECKPOINTS
        boundary, files = files_of(self._training, number)
        said = about(self._training, files)
        said |= {"seal": self.seal, "inexact": self.inexact}
        saved = save_checkpoint(folder, boundary, files, said)
        self.saved = number
        self._log.event(SAVED, round=number)
        prune(folder, saved, self._config.keep)


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number % every == 0
