"""A run from start to end: train, write down what happens, and leave a checkpoint."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from rookery.algorithms.base import LEFT_OUT
from rookery.config.run import Config
from rookery.config.toml import write_config
from rookery.errors import ConfigError, RookeryError
from rookery.evaluation.play import agents_of, cut_line
from rookery.games.registry import Entry
from rookery.plugins import describe_error
from rookery.runs.checkpoint_content import (
    fitting,
    go_on_from_memory,
    lacks_replays,
    restore,
)
from rookery.runs.checkpointing import Checkpointer
from rookery.runs.folder import CHECKPOINTS, CONFIG, FolderGone, RunLock
from rookery.runs.log import (
    AGAIN,
    INEXACT,
    PROBE,
    PROBES,
    RunLog,
    why_inexact,
)
from rookery.runs.resume import doubts, has_begun, seal_new, sealed
from rookery.runs.round_log import (
    left_out_line,
    write_episodes,
    write_evaluations,
    write_figures,
    write_probe,
)
from rookery.runs.seal import Seal, broken
from rookery.runs.start_from import origins_of
from rookery.stop import LEAVING, StopFlag
from rookery.storage.access import cannot_write
from rookery.storage.checkpoints import (
    checkpoints_in,
    is_whole,
    newest_whole,
    number_of,
    read_manifest,
)
from rookery.storage.files import Attempts
from rookery.training.training import MEMORY, NEW_MEMORY, InitialState, Round, Training

ALARMS = ("stalled", LEFT_OUT)
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
        self.note = ""
        """What a person should know before it starts."""
        self._attempt = Attempts(lambda line: self.say(f"warning: {line}"))
        self._lock = RunLock(folder)
        self.log = RunLog(folder, self._attempt)
        try:
            self._build(entry, stop, resume)
        except BaseException as error:
            self._lock.close()
            shutil.rmtree(folder / NEW_MEMORY, ignore_errors=True)
            if isinstance(error, (ConfigError, *LEAVING)) and not resume:
                shutil.rmtree(folder, ignore_errors=True)  # there is no run
            elif not isinstance(error, LEAVING):
                self._note_failure(error)
            raise
        self.done = self.training.boundary or 0
        """The last round that is complete."""
        self._begun = self.done
        self._said_left_out = False
        self._written = set(self.log.recorded_matches())
        """Evaluations and probes that were written down before main was killed."""
        self._has_told_of_cuts = False

    def _build(self, entry: Entry, stop: StopFlag | None, resume: bool) -> None:
        """Make everything that a run needs, or bring it back."""
        config, folder = self.config, self.folder
        agents = agents_of(entry, config)
        ids = [spec.id for spec in agents]
        goes_on = resume and has_begun(folder, self.log)
        origins: dict[str, InitialState] = {}
        if goes_on:
            seal = sealed(folder, config, ids)
        else:
            origins = origins_of(config, agents)
            seal = seal_new(folder, config, ids, origins)
        if not resume:  # from here on it can be resumed
            write_config(config, folder / CONFIG)
        in_files = (folder / MEMORY).exists()
        self.training = Training.build(entry, config, origins, stop, folder, self._tell)
        self._keeper = Checkpointer(folder, self.training, self.log, self._attempt)
        self._keeper.seal = seal["sum"] if seal else ""
        try:
            if in_files:
                self._go_on_from_memory(seal)
            elif goes_on:
                self._go_on_from_checkpoint(seal)
            else:
                self._begin(seal, again=resume)
            if (folder / NEW_MEMORY).exists():
                (folder / NEW_MEMORY).rename(folder / MEMORY)
        except BaseException as error:
            self.training.close()
            if not in_files:
                self._forget_memory()
            if isinstance(error, OSError):
                raise cannot_write(folder, error) from error
            raise

    def _begin(self, seal: Seal | None, again: bool) -> None:
        """Start at round 0; again, if the run was killed before its first checkpoint."""
        if again:
            self.note = "no checkpoint yet: starting again from round 0."
            self.log.cut(-1)
            self.log.event(AGAIN, line=self.note)
            self._go_on_with(0, doubts(seal, self.config, None))
        self.training.publish_initial_states()
        self.training.resume_from(0, 0)

    def _go_on_from_memory(self, seal: Seal | None) -> None:
        """Go on from what lies in files; a full disk may have cost lines, but no round."""
        recorded = max(self.log.last_round(), self.training.schedule.last_opened)
        self.log.cut(recorded)
        go_on_from_memory(self.training, recorded)
        whole = next(filter(is_whole, checkpoints_in(self.folder / CHECKPOINTS)), None)
        self._keeper.saved = number_of(whole) if whole else 0
        # Noted in both: a full disk may have cost the event.
        noted = read_manifest(whole).get("inexact") if whole else ""
        self._keeper.inexact = noted or why_inexact(self.folder)
        self._go_on_with(recorded, doubts(seal, self.config, seal and seal["begun"]))
        if recorded > self.training.schedule.last_opened:
            self._keeper.keep(recorded)  # it was killed before that, or on the way

    def _go_on_from_checkpoint(self, seal: Seal | None) -> None:
        found = newest_whole(self.folder / CHECKPOINTS, fitting(self.training))
        manifest, boundary = found.manifest, int(found.manifest["round"])
        if seal and manifest.get("seal") not in (None, "", seal["sum"]):
            raise broken(self.folder)
        restore(self.training, found.files, manifest)
        self._keeper.saved = boundary
        self._keeper.inexact = manifest.get("inexact") or why_inexact(self.folder)
        self.log.cut(boundary)
        self.training.warnings += found.warnings
        lacks = lacks_replays(self.training, found.files)
        without = ["it goes on without replays"] if lacks else []
        self._go_on_with(boundary, [*without, *doubts(seal, self.config, manifest)])

    def _go_on_with(self, boundary: int, doubts: Sequence[str]) -> None:
        """Go on from a boundary; if the run may be another one from there on, warn."""
        if doubts and boundary < self.config.rounds:
            line = self._mark_inexact("; ".join(doubts), boundary)
            self.training.warnings.append(line)

    def _mark_inexact(self, why: str, boundary: int, role: str = "main") -> str:
        """Write down why a run is not exact; return the line that says so.

        This is the only place: it stands in events, and in every checkpoint from now on.
        """
        line = f"{why}, and the run is marked as not exact."
        self._keeper.inexact = self._keeper.inexact or line
        self.log.event(INEXACT, role, round=boundary, line=line)
        return line

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
                self._lock.check_there()
                self._record(one)
                self.done = one.number
                self._keeper.keep(one.number)
                show(one)
        except FolderGone:
            self._let_go()
            raise
        except BaseException as error:
            if isinstance(error, LEAVING):
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
        self.log.event("failure", line=describe_error(error), traceback=said)

    def _leave(self) -> str:
        """End every process, keep what was learned, and let go of everything.

        Returns what could not be kept, in one line; '' if all is well.
        """
        with ExitStack() as last:
            last.callback(self._let_go)
            try:
                self.training.executor.close()
            finally:  # a game that cannot be closed costs nothing that was learned
                self._lock.check_there()
                lost = self._keep_all()
        return lost

    def _keep_all(self) -> str:
        """Write down the last of everything; return what could not be kept."""
        self._record_matches(self.training.new_matches())
        finished = 0 < self.done == self.config.rounds
        new = finished or self.done > self._begun
        lost = self._keeper.keep_last(self.done) if new else ""
        if finished and not lost:
            self._forget_memory()
        self.log.event("end", round=self.done)
        return lost

    def _let_go(self) -> None:
        """End every process, and give memory and folder back."""
        try:
            self.training.close()
        finally:
            self._lock.close()

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
            line = (
                "the game cannot be brought back to where it was: open episodes were "
                "closed as truncated"
            )
            self.say(f"warning: {self._mark_inexact(line, one.number, 'actor')}")
        agents = self.training.agents
        line = left_out_line(agents, self.config.turns_per_round, one)
        if line and not self._said_left_out:
            self._said_left_out = True
            self._tell(LEFT_OUT, round=one.number, line=line)
        ids = [agent.id for agent in agents]
        write_episodes(self.log, ids, one)
        self._record_matches(one.matches)
        # Last: whoever goes on after a kill takes out what lies beyond the last round here.
        write_figures(self.log, ids, one)

    def _record_matches(self, matches: Sequence[Mapping[str, Any]]) -> None:
        for match in matches:
            if "cut" in match and not self._has_told_of_cuts:
                self._has_told_of_cuts = True
                self.say(f"warning: {cut_line(match['cut'], self.config)}")
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
