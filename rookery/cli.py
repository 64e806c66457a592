"""The command line: parse, call, print.

`--json` prints one JSON object on standard output and nothing else there. An error is one
line on standard error; exit code 2 means that the user can put it right.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rookery import views
from rookery.bench.measure import bench_names, run_bench
from rookery.config import Config
from rookery.errors import ConfigError, RookeryError, nearest
from rookery.games.catalog import Entry, entries_by_name, find
from rookery.games.checks import check_game
from rookery.playing import Match, agents_of, lineup, play_match
from rookery.problems import shown
from rookery.resolving import resolve
from rookery.runs import new_run
from rookery.toml import read_toml, write_config
from rookery.words import merge, parse_words

app = typer.Typer(
    help="Groups of independent learning agents in one shared game.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Typer carries click within itself in some releases, and beside it in others.
ClickException: Any = typer.BadParameter.__mro__[2]

out = Console()
err = Console(stderr=True)

Game = Annotated[
    str | None,
    typer.Argument(help="A name from `rookery games`, ./file.py:Class, or pettingzoo:…"),
]
Words = Annotated[
    list[str] | None, typer.Argument(help="Settings, such as game.agents=4 seed=3.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file of settings.")
]
Players = Annotated[
    str | None, typer.Option(help="One player for all agents, or one per agent: a,b,c.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Folder = Annotated[Path | None, typer.Option("--run", help="The folder of the run.")]


@app.command()
def games(as_json: AsJson = False) -> None:
    """List what can be played."""
    entries = entries_by_name()
    if as_json:
        _print_json({"games": {name: entry.summary for name, entry in entries.items()}})
    else:
        out.print(views.games_table(entries.values()))
        out.print("[dim]rookery describe GAME says more about one.[/]")


@app.command()
def describe(game: Game = None, words: Words = None, as_json: AsJson = False) -> None:
    """Say what a game is: agents, what they see and do, players and settings."""
    entry, config = _configure(game, words, None)
    agents = agents_of(entry, config)
    if as_json:
        _print_json(views.game_facts(entry, agents, config))
    else:
        views.print_game(out, entry, agents, config)


@app.command()
def check(game: Game = None, words: Words = None, as_json: AsJson = False) -> None:
    """Test whether a game keeps the contract: worlds apart, exact snapshots, fair seats."""
    entry, config = _configure(game, words, None)
    findings = []
    for finding in check_game(entry, config.game.settings, config.seed):
        findings.append(finding)
        if not as_json:
            views.print_finding(out, finding)
    failed = [finding for finding in findings if finding.result == "failed"]
    if as_json:
        _print_json({"game": entry.name, "checks": [vars(finding) for finding in findings]})
    if failed:
        raise typer.Exit(1)


@app.command()
def evaluate(
    game: Game = None,
    words: Words = None,
    players: Players = None,
    config_file: ConfigFile = None,
    run: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Play without learning, and report mean and spread of the returns."""
    entry, config = _configure(game, words, config_file)
    config, seats = _seat(entry, config, players)
    agents = agents_of(entry, config)
    lineups = [seats] if seats else [lineup(agents, name) for name in entry.players]
    if run is not None:
        write_config(config, new_run(run, entry.name) / "config.toml")
    matches = {}
    for chosen in lineups:
        label = _label([str(name) for name in chosen])
        matches[label] = _play(entry, config, chosen, label, quiet=as_json)
    if as_json:
        summaries = {label: match.summary() for label, match in matches.items()}
        _print_json({"episodes": config.evaluate.episodes, "players": summaries})
    else:
        out.print(views.matches_table(entry, matches))


@app.command()
def replay(
    game: Game = None,
    words: Words = None,
    players: Players = None,
    config_file: ConfigFile = None,
    run: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Play one episode and leave a GIF and a recording of it."""
    entry, config = _configure(game, words, config_file)
    config, seats = _seat(entry, config, players)
    seats = seats or lineup(agents_of(entry, config), "random")
    match = play_match(entry, config, seats, episodes=1, record=True, film=1)
    folder = new_run(run, entry.name)
    write_config(config, folder / "config.toml")
    recording = match.recordings[0]
    gif = folder / "replays" / "episode-0.gif"
    recording.write_gif(gif)
    kept = folder / "recordings" / "world-0.episode-0.safetensors"
    kept.parent.mkdir()
    recording.save(kept)
    if as_json:
        _print_json({"run": str(folder), "gif": str(gif), **match.summary()})
    else:
        out.print(views.matches_table(entry, {_label(list(match.players)): match}))
        out.print(f"The episode: {gif}\nIts recording: {kept}", highlight=False)


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
        out.print(f"benchmarks: {', '.join(names)}", highlight=False)
        return
    if name not in names:
        raise ConfigError(f"unknown benchmark '{name}': {nearest(name, names)}")
    with err.status(f"measuring {name} …") as status:
        report = run_bench(name, progress=lambda done: status.update(f"{done} …"))
    if as_json:
        _print_json(report.to_json())
    else:
        views.print_report(out, report)


def _configure(
    game: str | None, words: list[str] | None, config_file: Path | None
) -> tuple[Entry, Config]:
    """Return the game and its configuration, from a file and words; words win."""
    every = [game] if game and "=" in game else []
    tree: dict[str, Any] = read_toml(config_file) if config_file else {}
    tree = merge(tree, parse_words([*every, *(words or [])]))
    name = _name_of(None if every else game, tree, config_file)
    entry = find(name)
    return entry, resolve(merge(tree, {"game": {"name": name}}), entry.settings)


def _name_of(game: str | None, tree: dict[str, Any], config_file: Path | None) -> str:
    """Return the game that was named; a file may only name games of the catalog.

    So a file that came from elsewhere cannot make Rookery import code.
    """
    group = tree.get("game")
    written = group.get("name") if isinstance(group, dict) else None
    if game is not None:
        return game
    if not isinstance(written, str):
        raise ConfigError("no game was named: name one that `rookery games` lists.")
    if written not in entries_by_name():
        raise ConfigError(
            f"{config_file or 'game.name'} names {shown(written)}, which is no game of the "
            "catalog: if you trust it, name it on the command line, too."
        )
    return written


def _seat(
    entry: Entry, config: Config, players: str | None
) -> tuple[Config, list[Any] | None]:
    """Return the configuration with its players, and one per agent if any were named."""
    agents = agents_of(entry, config)
    ids = [spec.id for spec in agents]
    config.check_agents(ids)
    if players is not None:
        named = lineup(agents, players.split(","))
        if len(named) != len(ids):
            raise ConfigError(
                f"--players names {len(named)} players for {len(ids)} agents: name one "
                "for all, or one per agent."
            )
        chosen = {i: {"player": name} for i, name in zip(ids, named, strict=True)}
        raw = {**config.model_dump(exclude={"game"}), "agents": chosen}
        game = config.game.settings.model_dump() | {"name": entry.name}
        config = resolve({**raw, "game": game}, entry.settings)
    if not config.agents:
        return config, None
    return config, [config.agent(i).player or "random" for i in ids]


def _label(players: list[str]) -> str:
    return players[0] if len(set(players)) == 1 else ",".join(players)


def _play(
    entry: Entry, config: Config, players: list[Any], label: str, quiet: bool
) -> Match:
    episodes = config.evaluate.episodes
    with views.progress(err, label, episodes, quiet) as advance:
        return play_match(entry, config, players, episodes=episodes, progress=advance)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every error the user can mend is one line."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    sys.exit(_run(app, words, debug))


def _run(command: Callable[..., Any], words: list[str], debug: bool) -> int:
    try:
        return command(words, standalone_mode=False) or 0
    except RookeryError as error:
        if debug:
            raise
        return _complain(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("stopped.", 130)
    except ClickException as error:
        return _complain(_usage(error), 2)


def _usage(error: Any) -> str:
    """Return a complaint about the words themselves, with where to look."""
    message = error.format_message().replace("\n", " ").rstrip(".")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "rookery"
    return f"{message}: see `{command} --help`."


def _complain(message: str, code: int) -> int:
    err.print(f"error: {message}", markup=False, highlight=False, soft_wrap=True)
    return code
