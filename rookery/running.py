"""A run from start to end: train, write down what happens, and leave a checkpoint."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from rookery.checkpoints import checkpoints_in, is_whole, newest_whole, number_of
from rookery.config.run import Config
from rookery.config.toml import write_config
from rookery.disk import Attempts
from rookery.errors import ConfigError, RookeryError
from rookery.folders import CHECKPOINTS, RunLock
from rookery.games.catalog import Entry
from rookery.keeping import Keeper
from rookery.loading import one_line
from rookery.minutes import (
    write_episodes,
    write_evaluations,
    write_figures,
    write_probe,
)
from rookery.monitoring.metrics import INEXACT, PROBE, PROBES, RunLog
from rookery.origins import origins_of
from rookery.playing import agents_of
from rookery.saving import (
    differences,
    fitting,
    go_on_from_memory,
    lacks_replays,
    restore,
)
from rookery.stopping import StopFlag, Stopped
from rookery.training import MEMORY, NEW_MEMORY, Round, Training

ALARMS = ("stalled", INEXACT)
"""Events that a person should hear of at once."""


class NotSaved(RookeryError):
    """What was learned last could not be written."""


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
        self.say: Callable[[str], None] = lambda line: None
        """Called at once with what a person should hear of."""
        self._attempt = Attempts(lambda line: self.say(f"warning: {line}"))
        self._lock = RunLock(folder)
        self.log = RunLog(folder, self._attempt)
        try:
            self._build(entry, stop, resume)
        except BaseException as error:
            self._lock.close()
            shutil.rmtree(folder / NEW_MEMORY, ignore_errors=True)
            if isinstance(error, ConfigError) and not resume:
                shutil.rmtree(folder, ignore_errors=True)  # there is no run
            else:
                self._note_failure(error)
            raise
        self.done = self.training.border or 0
        """The last round that is complete."""
        self._begun = self.done
        self._written = set(self.log.recorded_matches())
        """Evaluations and probes that were written down before main was killed."""

    def _build(self, entry: Entry, stop: StopFlag | None, resume: bool) -> None:
        """Make everything that a run needs, or bring it back."""
        config, folder = self.config, self.folder
        origins = {} if resume else origins_of(config, agents_of(entry, config))
        in_files = (folder / MEMORY).exists()
        self.training = Training(entry, config, origins, stop, folder, self._tell)
        self._keeper = Keeper(folder, self.training, self.log, self._attempt)
        try:
            if in_files:
                self._go_on_from_memory()
            elif resume:
                self._go_on_from_checkpoint()
            else:  # before there is anything to resume: origins are not read again
                self.training.publish_first()
                self.training.go_on_from(0, 0)
            if (folder / NEW_MEMORY).exists():
                (folder / NEW_MEMORY).rename(folder / MEMORY)
            if not resume:
                write_config(config, folder / "config.toml")
        except BaseException as error:
            self.training.close()
            if not in_files:
                self._forget_memory()
            if isinstance(error, OSError):
                raise _cannot_write(folder, error) from error
            raise

    def _go_on_from_memory(self) -> None:
        """Go on from what lies in files; a full disk may have cost lines, but no round."""
        recorded = max(self.log.last_round(), self.training.borders.last_opened)
        self.log.cut(recorded)
        go_on_from_memory(self.training, recorded)
        whole = filter(is_whole, checkpoints_in(self.folder / CHECKPOINTS))
        self._keeper.saved = next(map(number_of, whole), 0)
        if recorded > self.training.borders.last_opened:
            self._keeper.keep(recorded)  # it was killed before that, or on the way

    def _go_on_from_checkpoint(self) -> None:
        found = newest_whole(self.folder / CHECKPOINTS, fitting(self.training))
        restore(self.training, found.files, found.manifest)
        self._keeper.saved = int(found.manifest["round"])
        self.log.cut(self._keeper.saved)
        self.training.warnings += [*found.warnings, *differences(found.manifest)]
        if lacks_replays(self.training, found.files):
            line = "it goes on without replays, and the run is marked as not exact."
            self.log.event(INEXACT, "main", round=self._keeper.saved, line=line)
            self.training.warnings.append(line)

    def run(self, show: Callable[[Round], None]) -> None:
        """Train all rounds; leave the last complete one behind, whatever happens.

        Raises:
            NotSaved: if that could not be written, when everything else is closed.
        """
        about = {"rounds": self.config.rounds, "seed": self.config.seed}
        sizes = self.training.arena.sizes()
        self.log.event("start", "main", round=self.done, **about, bytes=sizes)
        try:
            for one in self.training.rounds():
                self._record(one)
                self.done = one.number
                self._keeper.keep(one.number)
                show(one)
        except BaseException as error:
            if isinstance(error, Stopped | KeyboardInterrupt):
                self.log.event("stop", round=self.done)
            elif isinstance(error, Exception):
                self._note_failure(error)
            if lost := self._leave():
                self.say(f"error: {lost}")
            raise
        if lost := self._leave():
            raise NotSaved(lost)

    def _note_failure(self, error: BaseException) -> None:
        """Keep the traceback of what ended the run; people are told one line."""
        if isinstance(error, RookeryError) and error.is_on_record:
            return
        said = "".join(traceback.format_exception(error))
        self.log.event("failure", line=one_line(error), traceback=said)

    def _leave(self) -> str:
        """End every process, keep what was learned, and let go of everything.

        Returns what could not be kept, in one line; '' if all is well.
        """
        with ExitStack() as last:
            last.callback(self._lock.close)
            last.callback(self.training.close)
            self.training.engine.close()
            self._record_matches(self.training.new_matches())
            finished = 0 < self.done == self.config.rounds
            new = finished or self.done > self._begun
            lost = self._keeper.keep_last(self.done) if new else ""
            if finished and not lost:
                self._forget_memory()
            self.log.event("end", round=self.done)
        return lost

    def _forget_memory(self) -> None:
        """Remove the files of memory at once: half of them could not be gone on from."""
        old = self.folder / f".{MEMORY}"
        shutil.rmtree(old, ignore_errors=True)  # left by one that was killed here
        with suppress(OSError):
            (self.folder / MEMORY).rename(old)
            shutil.rmtree(old, ignore_errors=True)

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
        ids = [member.id for member in self.training.members]
        write_episodes(self.log, ids, one)
        self._record_matches(one.matches)
        # Last: whoever goes on after a kill takes out what lies beyond the last round here.
        write_figures(self.log, ids, one)

    def _record_matches(self, matches: Sequence[Mapping[str, Any]]) -> None:
        for match in matches:
            if "unrecorded" in match:
                self._attempt.note("recordings", match["unrecorded"])
            write_evaluations(self.log, match, self._written)
            if "probe" in match and (match["round"], PROBES) not in self._written:
                self._record_probe(match["round"], match["probe"])

    def _record_probe(self, number: int, found: Mapping[str, Any]) -> None:
        """Write down what a probe found; if it failed, say so, and train on."""
        if "figures" not in found and (number, PROBE) in self._written:
            return
        if "figures" not in found:
            self._tell("failure", PROBE, attempt=number, round=number, **found)
            self.say(f"warning: {found['line']} Training goes on; see failures/.")
            return
        write_probe(self.log, number, found["figures"])


def _cannot_write(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot write {error.filename or folder} ({error.strerror}): free some space, or "
        "choose another folder."
    )
