"""The command line: parse, call, print.

`--json` prints one JSON object on standard output and nothing else there. An error is one
line on standard error; exit code 2 means that the user can put it right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.text import Text

from rookery.bench.measure import bench_names, run_bench
from rookery.cli import output as views
from rookery.cli import studies as studying
from rookery.cli.options import (
    AsJson,
    ConfigFile,
    Folder,
    Game,
    GameOrRun,
    NamedAlgorithms,
    NamedGame,
    Overrides,
    Players,
    RunFolder,
    Version,
    refuse_for_runs,
)
from rookery.config.toml import write_config
from rookery.errors import ConfigError, RookeryError, advice, nearest
from rookery.evaluation.play import agents_of, assign_seats, play_match
from rookery.games.conformance.checks import check_game
from rookery.games.registry import entries_by_name
from rookery.printing import err, out, print_json, say
from rookery.runs.configure import configure, seat
from rookery.runs.folder import is_run, new_run, no_run
from rookery.runs.health import health_of, last_round
from rookery.streams import guarded, take_lost

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Typer carries click within itself in some releases, and beside it in others.
ClickException: Any = typer.BadParameter.__mro__[2]


@app.callback()
def before_all(version: Version = False) -> None:
    """Groups of independent learning agents in one shared game."""


@app.command()
def games(as_json: AsJson = False) -> None:
    """List what can be played."""
    entries = entries_by_name()
    if as_json:
        print_json({"games": {name: entry.summary for name, entry in entries.items()}})
    else:
        out.print(views.games_table(entries.values()))
        out.print(Text("rookery describe GAME says more about one.", "dim"))


@app.command()
def describe(
    game: Game = None, overrides: Overrides = None, as_json: AsJson = False
) -> None:
    """Say what a game is: agents, what they see and do, players and settings."""
    entry, config = configure(game, overrides or ())
    agents = agents_of(entry, config)
    if as_json:
        print_json(views.game_facts(entry, agents, config))
    else:
        views.print_game(out, entry, agents, config)


@app.command()
def check(game: Game = None, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Test whether a game keeps the contract: worlds apart, exact snapshots, fair seats."""
    entry, config = configure(game, overrides or ())
    findings = []
    for finding in check_game(entry, config.game.settings, config.seed):
        findings.append(finding)
        if not as_json:
            views.print_finding(out, finding)
    failed = [finding for finding in findings if finding.result == "failed"]
    if as_json:
        print_json({"game": entry.name, "checks": [vars(finding) for finding in findings]})
    if failed:
        raise typer.Exit(1)


@app.command()
def train(
    game: Game = None,
    overrides: Overrides = None,
    config_file: ConfigFile = None,
    run: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Train the agents of a game."""
    _commands().train(game, overrides or [], config_file, run, as_json)


@app.command()
def resume(
    run: RunFolder,
    overrides: Overrides = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run from where it ended: stopped, failed or killed."""
    _commands().resume(run, overrides or [], named_game, named_algorithms or [], as_json)


@app.command()
def evaluate(
    game: GameOrRun = None,
    overrides: Overrides = None,
    players: Players = None,
    config_file: ConfigFile = None,
    run: Folder = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Play without learning, and report mean and spread of the returns."""
    if game and is_run(Path(game)):
        refuse_for_runs(players=players, config=config_file, run=run)
        _commands().evaluate_run(
            Path(game), overrides or [], named_game, named_algorithms or [], as_json
        )
        return
    entry, config = configure(game, overrides or (), config_file)
    config, seats = seat(entry, config, players)
    agents = agents_of(entry, config)
    lineups = [seats] if seats else [assign_seats(agents, name) for name in entry.players]
    if run is not None:
        write_config(config, new_run(run, entry.name) / "config.toml")
    matches = {}
    for chosen in lineups:
        label = _label([str(name) for name in chosen])
        with views.progress(err, label, config.evaluate.episodes, as_json) as advance:
            episodes = config.evaluate.episodes
            found = play_match(entry, config, chosen, episodes=episodes, progress=advance)
        views.say_cut(found, config)
        matches[label] = found
    if as_json:
        summaries = {label: match.summary() for label, match in matches.items()}
        played = min(len(match.episodes) for match in matches.values())
        print_json({"episodes": played, "players": summaries})
    else:
        out.print(views.matches_table(matches))


@app.command()
def replay(
    game: GameOrRun = None,
    overrides: Overrides = None,
    players: Players = None,
    config_file: ConfigFile = None,
    run: Folder = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Play one episode and leave a GIF and a recording of it."""
    if game and is_run(Path(game)):
        refuse_for_runs(players=players, config=config_file, run=run)
        _commands().replay_run(
            Path(game), overrides or [], named_game, named_algorithms or [], as_json
        )
        return
    entry, config = configure(game, overrides or (), config_file)
    config, seats = seat(entry, config, players)
    seats = seats or assign_seats(agents_of(entry, config), "random")
    match = play_match(entry, config, seats, episodes=1, record=True, film=1)
    views.say_cut(match, config)
    folder = new_run(run, entry.name)
    write_config(config, folder / "config.toml")
    views.leave_replay(out, match, folder, "episode-0", as_json)


@app.command()
def digest(run: RunFolder, named_game: NamedGame = None, as_json: AsJson = False) -> None:
    """Print a SHA-256 per agent over its learner's state and its experience."""
    _commands().digest(run, named_game, as_json)


@app.command()
def export(
    run: RunFolder,
    agent: Annotated[str, typer.Argument(help="The agent's id.")],
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Leave out what only learning needs.")
    ] = False,
    with_replay: Annotated[
        bool, typer.Option("--replay", help="Bring its experience along.")
    ] = False,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
) -> None:
    """Write one trained agent to a file, to be used in another run."""
    code = (named_game, named_algorithms or [])
    _commands().export(run, agent, file, weights_only, with_replay, *code)


@app.command()
def health(run: RunFolder, as_json: AsJson = False) -> None:
    """Show how every process of a run is right now."""
    if not is_run(run):
        raise no_run(run)
    found = health_of(run)
    number, seconds = last_round(run)
    if as_json:
        processes = [one.to_json() for one in found]
        print_json({"processes": processes, "round": number, "seconds": seconds})
    else:
        views.print_health(out, found, number, seconds)


studying.add_to(app)


def _commands() -> ModuleType:
    """Return what needs torch, which takes seconds to import."""
    return import_module("rookery.cli.train")


@app.command()
def bench(
    name: Annotated[
        str | None, typer.Argument(help="Which benchmark; all are listed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed, side by side in one run."""
    names = bench_names()
    if name is None:
        out.print(f"benchmarks: {', '.join(names)}")
        return
    if name not in names:
        raise ConfigError(f"unknown benchmark '{name}': {nearest(name, names)}")
    with err.status(f"measuring {name} …") as status:
        report = run_bench(name, progress=lambda done: status.update(f"{done} …"))
    if as_json:
        print_json(report.to_json())
    else:
        views.print_report(out, report)


def _label(players: list[str]) -> str:
    return players[0] if len(set(players)) == 1 else ",".join(players)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every error the user can mend is one line."""
    overrides = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in overrides
    overrides = [override for override in overrides if override != "--debug"]
    with guarded():
        code = _run(app, overrides, debug)
        if not code and (reason := take_lost()):
            code = _complain(f"cannot write to standard output ({reason}).", 1)
    sys.exit(code)


def _run(command: Callable[..., Any], overrides: list[str], debug: bool) -> int:
    try:
        return command(overrides, standalone_mode=False, prog_name="rookery") or 0
    except RookeryError as error:
        if debug:
            raise
        return _complain(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("stopped.", 130)
    except OSError as error:
        if debug or not (message := advice(error)):
            raise
        return _complain(message, 2)
    except ClickException as error:
        # Without any words the help was shown, and there is nothing to complain about.
        return _complain(_usage(error), 2) if error.format_message() else 0


def _usage(error: Any) -> str:
    """Return a complaint about the words themselves, with where to look."""
    message = error.format_message().rstrip(".")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "rookery"
    see = " See" if message.endswith("?") else ": see"
    return f"{message}{see} `{command} --help`."


def _complain(message: str, code: int) -> int:
    say(f"error: {message}")
    return code
