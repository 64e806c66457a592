"""The commands `train` and `resume`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.options import (
    AsJson,
    Changes,
    ConfigFile,
    Game,
    NamedAlgorithms,
    NamedGame,
    NewFolder,
    Overrides,
    RunFolder,
    Until,
)
from rookery.cli.until import end_time
from rookery.errors import ConfigError
from rookery.printing import command, err, print_json, say, tell
from rookery.stdio import take_lost

if TYPE_CHECKING:
    from rookery.config.run import Config
    from rookery.games.registry import Entry
    from rookery.runs.session import Session
    from rookery.stop import StopFlag
    from rookery.sweeps.plan import Plan


def train(
    game: Game = None,
    overrides: Overrides = None,
    config_file: ConfigFile = None,
    run: NewFolder = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Train the agents of a game."""
    from rookery.runs.configure import configure
    from rookery.runs.folder import new_run
    from rookery.sweeps.axes import parse_seeds
    from rookery.sweeps.planning import plan_seeds, side_by_side

    end = end_time(until)

    seeds = [override for override in overrides or [] if override.startswith("seeds=")]
    settings = [override for override in overrides or [] if override not in seeds]
    entry, config = configure(game, settings, config_file)
    if config_file is not None:
        _refuse_untrusted_code(config, [game or "", *settings], config_file)
    if seeds:
        numbers = parse_seeds(seeds[-1].removeprefix("seeds="))
        plan = plan_seeds(entry, side_by_side(config), numbers, run)
        summary = train_all(plan, quiet=as_json, until=end)
    else:
        path = new_run(run, entry.name)
        summary = train_one(entry, config, path, quiet=as_json, until=end)
    if as_json:
        print_json(summary)
    else:
        _say_next(Path(summary["run"]), entry, config)


def _refuse_untrusted_code(
    config: Config, overrides: Sequence[str], config_file: Path
) -> None:
    """Refuse code that only a configuration file names, and not the command line."""
    from rookery.evaluation.probes import check_named
    from rookery.protocol.user_files import algorithms_of
    from rookery.runs.run import untrusted_algorithms

    named = [override.partition("=")[2].strip("\"' ") for override in overrides]
    check_named(config, named, str(config_file))
    algorithms = algorithms_of(config)
    if missing := untrusted_algorithms(algorithms.values(), named):
        key = next((k for k, name in algorithms.items() if name == missing[0]), "algorithm")
        raise ConfigError(
            f"{config_file} names {missing[0]!r}, which is not built in. If you trust this "
            f"code, name it on the command line, too: {key}={missing[0]}"
        )


def train_all(plan: Plan, quiet: bool, until: float = math.inf) -> dict[str, Any]:
    """Train all cells of a sweep, or several seeds, with progress; return their summaries.

    A signal stops and saves all of them, and then ends this process.

    Args:
        plan: of the sweep.
        quiet: whether to show no progress.
        until: when they must be saved, in seconds since 1970.
    """
    from rookery.api.sweep import lines_when_stopped, summaries_of, train_sweep
    from rookery.stop import UNFINISHED, StopFlag, Stopped

    stop = StopFlag(until)
    try:
        with stop.listening(to_the_end=True):
            train_sweep(plan, stop, quiet, say, lambda line: say(f"warning: {line}"))
    except Stopped:
        for line in lines_when_stopped(plan):
            say(line)
        sys.exit(UNFINISHED)
    return summaries_of(plan)


def resume(
    run: RunFolder,
    overrides: Changes = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Resume a run that was stopped, failed or was killed, or train it longer.

    `rookery resume RUN rounds=400` trains a run longer, also a finished one.
    These settings can change: rounds, evaluate.*, record.*, probe.*,
    checkpoints.*, workers, actors, restarts.*, rate.rounds and rate.updates.
    Changes are written to the run's folder. A folder of seeds, or a sweep, is
    resumed and changed as a whole, with what had not begun.
    """
    from rookery.config.parse import parse_overrides
    from rookery.runs.folder import is_sweep
    from rookery.runs.resume import probes_in, resumed_config
    from rookery.runs.run import Run
    from rookery.sweeps.resume import resumed_plan
    from rookery.sweeps.trust import Named

    algorithms, end = named_algorithms or [], end_time(until)
    if is_sweep(run):
        settings, games = parse_overrides(overrides or []), [named_game or ""]
        named = Named([*filter(None, games)], algorithms, probes_in(settings))
        plan = resumed_plan(run, named, settings, say)
        summary = train_all(plan, quiet=as_json, until=end)
        if as_json:
            print_json(summary)
        return
    opened = Run(run, named_game, algorithms)
    _ = opened.agents  # report all errors before the start
    config = resumed_config(opened, overrides or [])
    summary = train_one(opened.entry, config, run, as_json, resume=True, until=end)
    if as_json:
        print_json(summary)
    else:
        _say_next(run, opened.entry, config)


def train_one(
    entry: Entry,
    config: Config,
    path: Path,
    quiet: bool,
    resume: bool = False,
    until: float = math.inf,
) -> dict[str, Any]:
    """Train one run in its folder with progress on the terminal; return a summary.

    All counts in the summary are of the whole run, including what was trained before it was
    resumed: `rounds`, `turns` of each world, `updates` of all agents together, and
    `seconds` that the rounds took, without starting and saving. Earlier rounds are counted
    from metrics.jsonl, so lines that a full disk has cost are missing from `updates` and
    `seconds`. `agents` has the metrics of the last round.
    """
    from rookery.api.progress import Progress
    from rookery.stop import UNFINISHED, StopFlag, Stopped

    stop = StopFlag(until)
    with stop.listening(to_the_end=True):
        session = _build(entry, config, path, stop, resume)
        session.say = say
        session.announce()
        if session.note:
            say(session.note)
        if resume and session.done == config.rounds:
            longer = command("resume", path, f"rounds={2 * config.rounds}")
            say(
                f"{path} has finished all its {config.rounds} rounds: nothing left to do. "
                f"To train longer: {longer}"
            )
        elif not quiet:
            say(memory_line(session.training.arena.sizes()))
        try:
            with Progress(err, session, quiet) as progress:
                session.run(progress.show)
        except Stopped:
            _say_stopped(path, session.done)  # below the table, which is closed by now
            sys.exit(UNFINISHED)
    return {
        "run": str(path),
        "rounds": session.done,
        "turns": session.done * config.turns_per_round,
        "updates": progress.totals.updates,
        "seconds": progress.totals.seconds,
        "agents": progress.agents,
    }


def _build(
    entry: Entry, config: Config, path: Path, stop: StopFlag, resume: bool
) -> Session:
    """Return a session that can start; a signal before that leaves nothing to save."""
    from rookery.runs.session import Session
    from rookery.stop import UNFINISHED, Stopped

    try:
        with stop.leaving():
            return Session(entry, config, path, stop, resume)
    except Stopped:
        result = "the run is unchanged" if resume else "no run was created"
        say(f"stopped before the first round: {result}.")
        sys.exit(UNFINISHED if resume else 128 + (stop.signal or 0))


def memory_line(sizes: Mapping[str, int]) -> str:
    """Return how much memory a run uses, in all and by purpose."""
    parts = ", ".join(f"{name} {_mebibytes(size)}" for name, size in sizes.items())
    return f"memory: {_mebibytes(sum(sizes.values()))} MiB ({parts})"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f}" if size >= 10 * 2**20 else f"{size / 2**20:.1f}"


def _say_stopped(path: Path, rounds: int) -> None:
    say(f"stopped after {rounds} complete rounds, which are saved in {path}.")
    line = f"resume: {command('resume', path)}"
    say(f"{line}   evaluate: {command('evaluate', path)}" if rounds else line)


def _say_next(path: Path, entry: Entry, config: Config) -> None:
    from rookery.games.registry import entries_by_name
    from rookery.protocol.user_files import algorithms_of
    from rookery.runs.run import untrusted_algorithms

    code: list[str] = []
    for name in untrusted_algorithms(algorithms_of(config).values(), ()):
        code += ["--algorithm", name]
    if entry.name not in entries_by_name():
        code += ["--game", entry.name]
    evaluate, replay = (command(name, path, *code) for name in ("evaluate", "replay"))
    tell(f"The run: {path}\nNext: {evaluate}   {replay}")
    take_lost()  # the run itself is saved, whether or not this could be printed
