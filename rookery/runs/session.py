"""A training session: start or resume a run, log what happens, and leave a checkpoint."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.actor.evaluations import RECORDINGS, due_at, recording_file
from rookery.algorithms.agents import capacity_of
from rookery.algorithms.base import LEFT_OUT, Agent
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import read_toml, write_config
from rookery.errors import ArrayFileError, ConfigError, RookeryError
from rookery.evaluation.play import agents_of, cut_line
from rookery.games.registry import Entry
from rookery.plugins import describe_error
from rookery.protocol.arena import MATCHES
from rookery.runs.agent_files import origin_checksum, origins_of
from rookery.runs.changes import read_history
from rookery.runs.checkpointing import (
    WEIGHTS,
    Checkpointer,
    continue_from_memory,
    fit_check,
    lacks_replays,
    restore,
)
from rookery.runs.claim import Claim, ClaimLost, FolderGone
from rookery.runs.folder import CHECKPOINTS, CONFIG
from rookery.runs.log import (
    AGAIN,
    INEXACT,
    PROBE,
    PROBES,
    WARNING,
    RunLog,
    why_inexact,
)
from rookery.runs.resume import describe_change, record_change, refuse_fewer_rounds
from rookery.runs.seal import (
    Seal,
    add_bits,
    broken_seal,
    check_seal,
    read_seal,
    reasons_inexact,
    seal_new_run,
)
from rookery.runs.specs_file import write_specs
from rookery.specs import AgentSpec
from rookery.stop import LEAVING, StopFlag
from rookery.storage.access import cannot_write, is_file
from rookery.storage.checkpoints import (
    checkpoints_in,
    delete_leftovers,
    is_whole,
    newest_whole,
    number_of,
    read_manifest,
)
from rookery.storage.files import Attempts, delete_partial_files
from rookery.training.training import MEMORY, NEW_MEMORY, Round, Training

SAVING_SECONDS, SAVING_SECONDS_PER_GIB = 5.0, 20.0
"""How long saving may take before it was measured; it usually takes half of that."""
ALARMS = ("stalled", LEFT_OUT)
"""Events that the user is warned of at once."""


class NotSaved(RookeryError):
    """The last round could not be saved."""


@dataclass(frozen=True)
class Planned:
    """What the plan of a sweep says about one of its runs."""

    seal: Seal
    """What it starts with; empty if that is not known."""
    changes: int
    """How many of the plan's changes its configuration contains."""


class Session:
    """Trains a run from its start, or from where it was interrupted, in its folder.

    Args:
        entry: the game.
        config: the run's configuration.
        folder: the run's folder, which exists.
        stop: asks the session to stop.
        resume: whether to continue the run in the folder; otherwise a new one is started.
            None continues it if it has begun.
        planned: what the plan of its sweep says about it, if it is in one.
        claim: on the folder, if it is claimed already; the session gives it up at its end.
    """

    def __init__(
        self,
        entry: Entry,
        config: Config,
        folder: Path,
        stop: StopFlag | None = None,
        resume: bool | None = False,
        planned: Planned | None = None,
        claim: Claim | None = None,
    ) -> None:
        self.config, self.folder, self._planned = config, folder, planned
        self.say: Callable[[str], None] = lambda line: None
        """Called with every line that the user should see at once."""
        self.show_warning: Callable[[str], None] = lambda line: self.say(f"warning: {line}")
        """Called with every warning; by default it is a line like any other."""
        self.note = ""
        """A line that the user should see before training starts."""
        self._attempt = Attempts(self._warn)
        self._claim = claim or Claim(folder)
        world_turns = config.turns_per_round * config.worlds
        self.log = RunLog(folder, self._attempt, world_turns, self._claim)
        if resume is None:  # only known since nobody else can start it
            resume = is_file(folder / CONFIG)
        self._stop = stop or StopFlag()
        self._stop.regularly = self._claim.renew
        try:
            self._build(entry, self._stop, resume)
        except BaseException as error:
            is_refusal = isinstance(error, (ConfigError, *LEAVING))
            if not is_refusal:
                self._log_failure(error)
            shutil.rmtree(folder / NEW_MEMORY, ignore_errors=True)
            if is_refusal and not resume:  # there is no run
                self._discard_folder()
            self._leave_folder()
            raise
        self.start = self.training.boundary or 0
        """The last complete round when this session started."""
        self.done = self.start
        """The last complete round."""
        self.last_matches: list[dict[str, Any]] = []
        """Reports of evaluations that finished after the last round, once it has ended."""
        self._has_announced = False
        self._stopped: set[str] = set()
        """Agents that the user knows have stopped learning."""
        self._has_warned_of_left_out = False
        self._has_warned_of_cuts = False

    def _build(self, entry: Entry, stop: StopFlag, resume: bool) -> None:
        """Build the training, in its first state or in the one it was interrupted in."""
        config, folder = self.config, self.folder
        agents = agents_of(entry, config)
        ids = [spec.id for spec in agents]
        recorded = config
        if resume:
            recorded = resolve(read_toml(folder / CONFIG), entry.settings)
            refuse_fewer_rounds(folder, recorded, config)
            self._shut_out_predecessor()
        continues = resume and self._has_state()
        origins = {} if continues else origins_of(config, agents)
        if continues:
            seal = check_seal(folder, recorded, ids)
        else:
            expected = read_seal(folder) if resume else self._planned_seal
            checksums = {i: origin_checksum(origin) for i, origin in origins.items()}
            seal = seal_new_run(folder, recorded, ids, checksums, expected)
        if not resume:
            write_specs(folder, agents)
            write_config(config, folder / CONFIG)  # from here on it can be resumed
        has_memory = (folder / MEMORY).exists()
        self.training = Training.build(entry, config, origins, stop, folder, self._tell)
        self._checkpointer = Checkpointer(
            folder, self.training, self.log, self._attempt, self._claim
        )
        self._checkpointer.seal = seal["sum"] if seal else ""
        gibibytes = sum(self.training.arena.sizes().values()) / 2**30
        stop.saving_seconds = SAVING_SECONDS + SAVING_SECONDS_PER_GIB * gibibytes
        try:
            if has_memory:
                self._continue_from_memory(seal)
            elif continues:
                self._continue_from_checkpoint(seal)
            else:
                self._begin(seal, again=resume)
            self._logged = set(self.log.logged_matches())
            self._skip_finished_matches()
            self._record_change(recorded, agents)
            if (folder / NEW_MEMORY).exists():
                (folder / NEW_MEMORY).rename(folder / MEMORY)
        except BaseException as error:
            self.training.close()
            if not has_memory:
                self._delete_memory()
            if isinstance(error, OSError):
                raise cannot_write(folder, error) from error
            raise

    @property
    def _planned_seal(self) -> Seal | None:
        return self._planned.seal if self._planned else None

    def _shut_out_predecessor(self) -> None:
        """Delete what a process whose claim was taken over could still write to.

        It may be about to rename an incomplete checkpoint. If it ran elsewhere, it may also
        write to the memory files, or they are incomplete because its machine went down.
        """
        delete_leftovers(self.folder / CHECKPOINTS)
        for name in (RECORDINGS, WEIGHTS):
            delete_partial_files(self.folder / name, "round-*")
        if self._claim.is_from_elsewhere:
            self._delete_memory()

    def _record_change(self, recorded: Config, agents: Sequence[AgentSpec]) -> None:
        """Write changed settings to the run's folder, before training continues."""
        boundary = self.training.boundary or 0
        planned = self._planned.changes if self._planned else None
        change = record_change(
            self.folder, recorded, self.config, agents, boundary, planned
        )
        if change is None:
            return
        self.log.event("changed", round=boundary, settings=change.settings)
        self._warn_if_inexact(boundary, [change.inexact] if change.inexact else [])
        if planned is None:  # otherwise the command that changed the plan has said so
            self.note = " ".join(filter(None, [self.note, describe_change(change)]))

    def _skip_finished_matches(self) -> None:
        """Skip what is due at the boundary the actor continues from, if all of it is done.

        Otherwise it is run again: what was logged before is not logged twice.
        """
        arena = self.training.arena
        boundary = max(0, arena.snapshots().version)
        done = {name for number, name in self._logged if number == boundary}
        if PROBES in done:
            done.add(PROBE)
        if recording_file(self.folder, boundary).exists():
            done.add(RECORDINGS)
        if arena.counters.load(MATCHES) > boundary:  # it may not have been logged yet
            report = arena.match_reports().read_round(boundary) or {}
            done |= {*report.get("evaluations", ()), *report}
        is_done = due_at(self.config, boundary) <= done
        arena.counters.store(MATCHES, boundary + 1 if is_done else boundary)

    def _has_state(self) -> bool:
        """Whether there is memory or a checkpoint to continue from.

        Raises:
            ArrayFileError: if there was a checkpoint and is none now: starting again from
                round 0 would lose the log as well.
        """
        checkpoints = self.folder / CHECKPOINTS
        if (self.folder / MEMORY).exists() or checkpoints_in(checkpoints):
            return True
        if self.log.has_saved():
            raise ArrayFileError(
                f"{checkpoints} no longer has a checkpoint: put one back, or delete the "
                "run and train it again."
            )
        return False

    def _begin(self, seal: Seal | None, again: bool) -> None:
        """Start at round 0; again, if the run was killed before its first checkpoint."""
        if again:
            self.note = "no checkpoint yet: starting again from round 0."
            self.log.cut(-1)
            self.log.event(AGAIN, line=self.note)
        self._warn_if_inexact(0, reasons_inexact(seal, self.config))
        if seal:
            seal = add_bits(self.folder, seal, self.training.bits)
            self._checkpointer.seal = seal["sum"]
        files = seal["files"] if seal else {}
        unread = [name for name, checksum in files.items() if not checksum]
        if unread:
            reason = f"the source of {', '.join(unread)} cannot be read"
            self._warn_if_inexact(0, [f"{reason}, so changes of it would not be noticed"])
        self.training.publish_initial_states()
        self.training.resume_from(0, 0)

    def _continue_from_memory(self, seal: Seal | None) -> None:
        """Continue from memory files; a full disk may have cost log lines, but no round."""
        recorded = max(self.log.last_round(), self.training.schedule.last_opened)
        self.log.cut(recorded)
        continue_from_memory(self.training, recorded)
        newest = next(filter(is_whole, checkpoints_in(self.folder / CHECKPOINTS)), None)
        self._checkpointer.saved = number_of(newest) if newest else 0
        # Recorded in both: a full disk may have cost the event.
        why = read_manifest(newest).get("inexact") if newest else ""
        self._checkpointer.inexact = why or self._recorded_why_inexact()
        computed_with = seal["begun"] if seal else None
        reasons = reasons_inexact(seal, self.config, computed_with, self.training.bits)
        self._warn_if_inexact(recorded, reasons)
        if recorded > self.training.schedule.last_opened:
            self._checkpointer.save_due(recorded)  # it was killed before or during that

    def _continue_from_checkpoint(self, seal: Seal | None) -> None:
        newest = newest_whole(self.folder / CHECKPOINTS, fit_check(self.training))
        manifest, boundary = newest.manifest, int(newest.manifest["round"])
        if seal and manifest.get("seal") not in (None, "", seal["sum"]):
            raise broken_seal(self.folder)
        restore(self.training, newest.files, manifest)
        self._checkpointer.saved = boundary
        self._checkpointer.inexact = manifest.get("inexact") or self._recorded_why_inexact()
        self.log.cut(boundary)
        self.training.warnings += newest.warnings
        reasons = reasons_inexact(seal, self.config, manifest, self.training.bits)
        if lacks_replays(self.training, newest.files):
            reasons.insert(0, "it continues without replays")
        self._warn_if_inexact(boundary, reasons)

    def _recorded_why_inexact(self) -> str:
        """Return why the run is not exact, by its events and its history; '' if it is."""
        return why_inexact(self.folder) or read_history(self.folder).why_inexact()

    def _warn_if_inexact(self, boundary: int, reasons: Sequence[str]) -> None:
        if reasons and boundary < self.config.rounds:
            line = self._mark_inexact("; ".join(reasons), boundary)
            self.training.warnings.append(line)

    def _mark_inexact(self, why: str, boundary: int, role: str = "main") -> str:
        """Record why the run is not exact, in the log and in every checkpoint from now on.

        Returns the line that was recorded.
        """
        line = f"{why}, and the run is marked as not exact."
        self._checkpointer.inexact = self._checkpointer.inexact or line
        self.log.event(INEXACT, role, round=boundary, line=line)
        return line

    def run(self, show: Callable[[Round], None]) -> None:
        """Train all remaining rounds; save the last complete one, whatever happens.

        Args:
            show: called after every round.

        Raises:
            NotSaved: if the last round could not be saved; everything is closed by then.
        """
        plan = {"rounds": self.config.rounds, "seed": self.config.seed}
        sizes = self.training.arena.sizes()
        self.log.event("start", "main", round=self.done, **plan, bytes=sizes)
        try:
            self.announce()
            for result in self.training.rounds():
                self._claim.check_there()
                self._log_round(result)
                self.done = result.number
                self._checkpointer.save_due(result.number)
                longest = SAVING_SECONDS + 2 * self._checkpointer.longest
                self._stop.saving_seconds = max(self._stop.saving_seconds, longest)
                show(result)
        except (FolderGone, ClaimLost):
            self._close()
            raise
        except BaseException as error:
            if isinstance(error, LEAVING):
                self.log.event("stop", round=self.done)
            elif isinstance(error, Exception):
                self._log_failure(error)
            if problem := self._finish():
                self.say(f"error: {problem}")
            raise
        if problem := self._finish():
            raise NotSaved(problem)

    def announce(self) -> None:
        """Log and show all warnings about the start, once."""
        if not self._has_announced:
            self._has_announced = True
            for line in self.training.warnings:
                self._warn(line)

    def _warn(self, line: str) -> None:
        """Log a warning, and show it to the user."""
        if hasattr(self, "log"):  # a log that cannot be opened is a reason to warn, too
            self.log.event(WARNING, line=line)
        self.show_warning(line)

    def _finish(self) -> str:
        """End all processes, save the last round, and close everything.

        Returns why it could not be saved, in one line; '' if it was.
        """
        with ExitStack() as last:
            last.callback(self._close)
            try:
                self.training.executor.close()
            finally:  # a game that cannot be closed must not cost a round
                self._claim.check()
                problem = self._save_last()
        return problem

    def _save_last(self) -> str:
        """Log the last evaluations and save the last round; return why not, or ''."""
        self.last_matches = self.training.new_matches()
        self._log_matches(self.last_matches)
        finished = 0 < self.done == self.config.rounds
        has_new = finished or self.done > self.start
        problem = self._checkpointer.save_last(self.done) if has_new else ""
        if finished and not problem:
            self._delete_memory()
        self.log.event("end", round=self.done)
        return problem

    def _close(self) -> None:
        """End all processes, free the memory and give the folder up."""
        try:
            self.training.close()
        finally:
            self._leave_folder()

    def _leave_folder(self) -> None:
        """Write nothing more to the folder, and give it up."""
        self._stop.regularly = lambda: None
        self.log.close()
        self._claim.close()

    def _discard_folder(self) -> None:
        """Delete the folder, but nothing of another process that takes its place."""
        gone = self.folder.with_name(f".{self.folder.name}-{self._claim.token}")
        try:
            self.folder.rename(gone)
        except OSError:
            gone = self.folder
        shutil.rmtree(gone, ignore_errors=True)

    def _delete_memory(self) -> None:
        """Delete the memory files, all or none: a run cannot continue from some of them."""
        old = self.folder / f".{MEMORY}"
        shutil.rmtree(old, ignore_errors=True)  # left by a process that was killed here
        with suppress(OSError):
            (self.folder / MEMORY).rename(old)
            shutil.rmtree(old, ignore_errors=True)

    def _tell(self, event: str, role: str = "main", **details: Any) -> str | None:
        """Log an event of a process; warn the user if it should not wait."""
        if event in ALARMS:
            self.show_warning(details["line"])
        return self.log.event(event, role, **details)

    def _log_failure(self, error: BaseException) -> None:
        """Save the traceback of the error that ends the run; the user sees one line."""
        if isinstance(error, FolderGone | ClaimLost):
            return  # nothing may be written
        if isinstance(error, RookeryError) and error.is_on_record:
            return
        text = "".join(traceback.format_exception(error))
        self.log.event("failure", line=describe_error(error), traceback=text)

    def _log_round(self, result: Round) -> None:
        if result.played.interrupted:
            line = (
                "the game cannot be restored to where it was: open episodes were closed "
                "as truncated"
            )
            self.show_warning(self._mark_inexact(line, result.number, "actor"))
        agents = self.training.agents
        line = _left_out_line(agents, self.config.turns_per_round, result)
        if line and not self._has_warned_of_left_out:
            self._has_warned_of_left_out = True
            self._tell(LEFT_OUT, round=result.number, line=line)
        self._warn_of_stopped(result)
        ids = [agent.id for agent in agents]
        self.log.episodes(ids, result)
        self._log_matches(result.matches)
        # Last: after a kill, lines of rounds that have no metrics are removed.
        self.log.metrics(ids, result)

    def _warn_of_stopped(self, result: Round) -> None:
        """Warn of every agent that has stopped learning, once."""
        for agent, metrics in result.learned.metrics.items():
            if metrics.get("stopped") and agent not in self._stopped:
                self._stopped.add(agent)
                self._warn(
                    f"agent '{agent}' stopped learning: its loss became NaN or infinite; "
                    "it continues to act with its last good weights."
                )

    def _log_matches(self, matches: Sequence[Mapping[str, Any]]) -> None:
        for match in matches:
            if "cut" in match and not self._has_warned_of_cuts:
                self._has_warned_of_cuts = True
                self._warn(cut_line(match["cut"], self.config))
            if "unrecorded" in match:
                self._attempt.note("recordings", match["unrecorded"])
            self.log.evaluations(match, self._logged)
            if "probe" in match and (match["round"], PROBES) not in self._logged:
                self._log_probe(match["round"], match["probe"])

    def _log_probe(self, number: int, result: Mapping[str, Any]) -> None:
        """Log what a probe returned; if it failed, warn and continue training."""
        if "figures" in result:
            self.log.probe(number, result["figures"])
        elif (number, PROBE) not in self._logged:
            self._tell("failure", PROBE, attempt=number, round=number, **result)
            self.show_warning(f"{result['line']} Training continues; see failures/.")


def _left_out_line(agents: Sequence[Agent], turns: int, result: Round) -> str:
    """Return a warning about transitions too long to be learned from; '' if none is."""
    metrics = result.learned.metrics
    affected = [agent for agent in agents if metrics.get(agent.id, {}).get(LEFT_OUT)]
    if not affected:
        return ""
    names = ", ".join(agent.id for agent in affected)
    longest = capacity_of(affected[0], turns, 1)
    return (
        f"transitions longer than {longest} turns are not learned from (agents: {names}; "
        "left_out in the metrics): raise turns_per_round."
    )
