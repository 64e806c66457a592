"""The commands that need trained agents: train, and look at what came of it."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from rookery.cli import output as views
from rookery.cli.progress import Progress
from rookery.cli.seeds import parse_seeds, resume_seeds, train_seeds
from rookery.config.messages import dotted
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.evaluation.play import Match, Seat, assign_seats, play_match
from rookery.evaluation.probes import check_named
from rookery.games.registry import Entry, entries_by_name
from rookery.printing import command, err, out, print_json, say, tell
from rookery.runs.agent_files import export_agent
from rookery.runs.configure import configure
from rookery.runs.folder import SEEDS, new_run, seeds_of
from rookery.runs.run import Run, resumed_config, unnamed_code
from rookery.runs.session import Session
from rookery.stop import StopFlag, Stopped
from rookery.storage.access import cannot_write, is_file
from rookery.streams import take_lost


def train(
    game: str | None,
    overrides: list[str],
    config_file: Path | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Train one run, or several seeds of it."""
    seeds = [override for override in overrides if override.startswith("seeds=")]
    rest = [override for override in overrides if override not in seeds]
    entry, config = configure(game, rest, config_file)
    _check_code(config, [game or "", *rest], config_file)
    if seeds:
        chosen = parse_seeds(seeds[-1])
        summary = train_seeds(game, rest, config_file, folder, chosen)
    else:
        path = new_run(folder, entry.name)
        summary = train_one(entry, config, path, quiet=as_json)
    if as_json:
        print_json(summary)
    else:
        _say_next(Path(summary["run"]), entry, config)


def _check_code(config: Config, overrides: Sequence[str], config_file: Path | None) -> None:
    """Refuse an algorithm of a user's own that only a configuration file names."""
    chosen = _algorithms(config)
    named = [override.partition("=")[2].strip("\"' ") for override in overrides]
    missing = unnamed_code(chosen.values(), named)
    if config_file is not None:
        check_named(config, named, str(config_file))
    if config_file is not None and missing:
        key = next((k for k, name in chosen.items() if name == missing[0]), "algorithm")
        raise ConfigError(
            f"{config_file} names {missing[0]!r}, which is no algorithm of the catalog: if "
            f"you trust it, name it on the command line, too: {key}={missing[0]}"
        )


def _algorithms(config: Config) -> dict[str, str]:
    """Return every algorithm that is named, by the setting that names it."""
    agents = {
        dotted(("agents", key, "algorithm")): agent.algorithm
        for key, agent in config.agents.items()
    }
    return {"algorithm": config.algorithm, **agents}


def resume(
    path: Path,
    overrides: Sequence[str],
    game: str | None,
    algorithms: Sequence[str],
    as_json: bool,
) -> None:
    """Go on with a run, or with all seeds of one, from where it ended."""
    if seeds_of(path) or is_file(path / SEEDS):
        code = [f"--algorithm={name}" for name in algorithms]
        code += [f"--game={game}"] if game else []
        summary = resume_seeds(path, overrides, code, game)
        if as_json:
            print_json(summary)
        return
    run = Run(path, game, algorithms)
    _ = run.agents  # all mistakes are told before the start
    config = resumed_config(run, overrides)
    summary = train_one(run.entry, config, path, quiet=as_json, resume=True)
    if as_json:
        print_json(summary)
    else:
        _say_next(path, run.entry, config)


def export(
    path: Path,
    agent: str,
    file: Path,
    weights_only: bool,
    with_replay: bool,
    game: str | None,
    algorithms: Sequence[str],
) -> None:
    """Write one trained agent to a file."""
    export_agent(Run(path, game, algorithms), agent, file, weights_only, with_replay)
    use = f"rookery train … {shlex.quote(f'agents.ID.from={file}')}"
    tell(f"{file}: agent {agent} of {path}\nUse it: {use}")


def train_one(
    entry: Entry, config: Config, path: Path, quiet: bool, resume: bool = False
) -> dict[str, Any]:
    """Train one run in its folder, showing how it goes; return a summary."""
    stop = StopFlag()
    session = _build(entry, config, path, stop, resume)
    for line in session.training.warnings:
        say(f"warning: {line}")
    session.say = say
    if session.note:
        say(session.note)
    if resume and session.done == config.rounds:
        say(f"{path} has done all its {config.rounds} rounds: nothing is left to do.")
    elif not quiet:
        say(memory_line(session.training.arena.sizes()))
    started = time.perf_counter()
    notes = session.training.executor.notes
    with Progress(err, config, session.training.agents, quiet, notes) as progress:
        try:
            with stop.listening():
                session.run(progress.show)
        except Stopped:
            _say_stopped(path, session.done)
            sys.exit(128 + (stop.signal or 0))
    return {
        "run": str(path),
        "rounds": session.done,
        "turns": session.done * config.turns_per_round,
        "updates": progress.updates,
        "seconds": time.perf_counter() - started,
        "agents": progress.agents,
    }


def _build(
    entry: Entry, config: Config, path: Path, stop: StopFlag, resume: bool
) -> Session:
    """Return a run that can start; a signal that comes before leaves nothing to save."""
    try:
        with stop.leaving():
            return Session(entry, config, path, stop, resume)
    except Stopped:
        left = "the run is as it was" if resume else "there is no run"
        say(f"stopped before the first round: {left}.")
        sys.exit(128 + (stop.signal or 0))


def memory_line(sizes: Mapping[str, int]) -> str:
    """Return how much memory a run takes, and for what."""
    parts = ", ".join(f"{name} {_mebibytes(size)}" for name, size in sizes.items())
    return f"memory: {_mebibytes(sum(sizes.values()))} MiB ({parts})"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f}" if size >= 10 * 2**20 else f"{size / 2**20:.1f}"


def _say_stopped(path: Path, rounds: int) -> None:
    say(f"stopped after {rounds} whole rounds; what was learned is in {path}.")
    again, look = command("resume", path), command("evaluate", path)
    say(f"go on: {again}   look at it: {look}" if rounds else f"go on: {again}")


def _say_next(path: Path, entry: Entry, config: Config) -> None:
    own = unnamed_code(_algorithms(config).values(), ())
    code = [override for name in own for override in ("--algorithm", name)]
    code += ["--game", entry.name] if entry.name not in entries_by_name() else []
    look, film = (command(name, path, *code) for name in ("evaluate", "replay"))
    tell(f"The run: {path}\nNext: {look}   {film}")
    take_lost()  # the run is what was asked for, and it is saved


def evaluate_run(
    path: Path,
    overrides: Sequence[str],
    game: str | None,
    algorithms: Sequence[str],
    as_json: bool,
) -> None:
    """Compare trained agents with random and scripted players."""
    seeds = seeds_of(path)
    runs = [Run(folder, game, algorithms) for folder in seeds or [path]]
    found = {run.path.name: _evaluate_one(run, overrides, as_json) for run in runs}
    if seeds and as_json:
        print_json({"seeds": {name: _summary(m) for name, m in found.items()}})
    elif as_json:
        print_json(_summary(next(iter(found.values()))))
    else:
        for name, matches in found.items():
            if seeds:
                out.print(Text(f"\n{name}", "bold"))
            out.print(views.matches_table(matches))


def _evaluate_one(run: Run, overrides: Sequence[str], quiet: bool) -> dict[str, Match]:
    config = changed_config(run, overrides)
    lineups = {"trained": seats_of(run), "as_trained": seats_of(run, greedy=False)}
    specs = [agent.spec for agent in run.agents]
    lineups |= {name: assign_seats(specs, name) for name in run.entry.players}
    episodes, matches = config.evaluate.episodes, {}
    for label, seats in lineups.items():
        with views.progress(err, label, episodes, quiet) as advance:
            matches[label] = play_match(
                run.entry,
                config,
                seats,
                episodes=episodes,
                round_number=run.rounds_with_weights[-1],
                progress=advance,
            )
        views.say_cut(matches[label], config)
    return matches


def seats_of(run: Run, greedy: bool = True) -> list[Seat]:
    """Return the trained agents of a run, and its scripted players, one per seat."""
    trained = run.players()
    for agent, player in trained.items():
        player.__name__ = "trained"
        player.exploration = 0.0 if greedy else run.exploration(agent)
        player.noise = not greedy
    return [
        trained[agent.id] if agent.algorithm else agent.player or "random"
        for agent in run.agents
    ]


def changed_config(run: Run, overrides: Sequence[str]) -> Config:
    """Return a run's configuration with some words changed: seed, worlds, episodes."""
    allowed = ("seed=", "worlds=", "evaluate.episodes=", "evaluate.turns=")
    for override in overrides:
        if not override.startswith(allowed):
            raise ConfigError(
                f"'{override}' cannot be changed after training: seed, worlds, "
                "evaluate.episodes and evaluate.turns can."
            )
    _, config = configure(run.entry.name, overrides, run.path / "config.toml")
    # Not the games it was trained in.
    return config.model_copy(update={"seed": (config.seed + 2**61) % 2**63})


def _summary(matches: Mapping[str, Match]) -> dict[str, Any]:
    episodes = len(next(iter(matches.values())).episodes)
    return {
        "episodes": episodes,
        "players": {label: match.summary() for label, match in matches.items()},
    }


def replay_run(
    path: Path,
    overrides: Sequence[str],
    game: str | None,
    algorithms: Sequence[str],
    as_json: bool,
) -> None:
    """Let trained agents play one episode; leave a GIF and a recording in the run."""
    run = Run((seeds_of(path) or [path])[0], game, algorithms)
    config = changed_config(run, overrides)
    seats = seats_of(run)  # before anything else: there may be no weights yet
    number = run.rounds_with_weights[-1]
    match = play_match(
        run.entry, config, seats, episodes=1, record=True, film=1, round_number=number
    )
    views.say_cut(match, config)
    try:
        views.leave_replay(out, match, run.path, f"trained-round-{number}", as_json)
    except OSError as error:
        if error.filename is None:  # what cannot be written is no file of the run
            raise
        raise cannot_write(run.path, error) from error


def digest(path: Path, game: str | None, as_json: bool) -> None:
    """Print digests."""
    found = Run(path, game).digest()
    if as_json:
        print_json(found)
        return
    for agent, value in found["agents"].items():
        tell(f"{value}  agent {agent}")
    tell(f"{found['run']}  run")
    if not found["exact"]:
        tell(f"Not exact: {found['why']}")
