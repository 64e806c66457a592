"""The commands `evaluate`, `replay` and `record`: play without learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from rookery.cli.options import (
    AsJson,
    ConfigFile,
    GameOrRun,
    NamedAlgorithms,
    NamedGame,
    NewFolder,
    Overrides,
    Players,
    RunFolder,
)
from rookery.errors import ConfigError
from rookery.printing import err, out, print_json, tell

if TYPE_CHECKING:
    from rookery.config.run import Config
    from rookery.evaluation.play import Match, Seat
    from rookery.games.registry import Entry
    from rookery.runs.run import Run

CHANGEABLE = ("seed", "worlds", "evaluate.episodes", "evaluate.turns")
"""Settings of a run that can be changed when its agents play."""


@dataclass
class Setup:
    """A game with the line-ups that are to play it, from the command line or from a run."""

    entry: Entry
    config: Config
    lineups: Mapping[str, Sequence[Seat]]
    """The seats by label; the first one is the one that `replay` plays."""
    run: Run | None = None
    is_seed: bool = False
    """Whether the run is in a folder of seeds."""

    @property
    def round_number(self) -> int | None:
        """The round that the run's agents are from."""
        return self.run.rounds_with_weights[-1] if self.run else None

    def play(self, label: str, episodes: int, **options: Any) -> Match:
        """Play a line-up; warn if episodes were cut off."""
        from rookery.cli.output import say_cut
        from rookery.evaluation.play import play_match

        match = play_match(
            self.entry,
            self.config,
            self.lineups[label],
            episodes=episodes,
            round_number=self.round_number,
            **options,
        )
        say_cut(match, self.config)
        return match


def run_or_game(
    command: Callable[[Iterator[Setup], Path | None, bool], None],
) -> Callable[..., None]:
    """Return a command that takes a game or a run.

    It has the arguments and options that `evaluate` and `replay` share. The decorated
    function is called with one setup per run, the folder of a new run if one was given,
    and whether to print JSON.
    """

    def wrapper(
        game: GameOrRun = None,
        overrides: Overrides = None,
        players: Players = None,
        config_file: ConfigFile = None,
        run: NewFolder = None,
        named_game: NamedGame = None,
        named_algorithms: NamedAlgorithms = None,
        as_json: AsJson = False,
    ) -> None:
        from rookery.runs.folder import is_run

        if game and is_run(Path(game)):
            for name, value in {
                "players": players,
                "config": config_file,
                "run": run,
            }.items():
                if value is not None:
                    raise ConfigError(
                        f"--{name} cannot be used with a run, which has its own: leave "
                        f"--{name} out, or name the game."
                    )
            setups = _run_setups(
                Path(game), overrides or [], named_game, named_algorithms or []
            )
        else:
            setups = _game_setups(game, overrides or [], players, config_file)
        command(setups, run, as_json)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    return wrapper


def _game_setups(
    game: str | None,
    overrides: Sequence[str],
    players: str | None,
    config_file: Path | None,
) -> Iterator[Setup]:
    from rookery.evaluation.play import agents_of, assign_seats
    from rookery.runs.configure import configure, seat

    entry, config = configure(game, overrides, config_file)
    config, seats = seat(entry, config, players)
    if seats:
        yield Setup(entry, config, {_label([str(name) for name in seats]): seats})
    else:
        agents = agents_of(entry, config)
        yield Setup(
            entry, config, {name: assign_seats(agents, name) for name in entry.players}
        )


def _label(players: Sequence[str]) -> str:
    return players[0] if len(set(players)) == 1 else ",".join(players)


def _run_setups(
    path: Path, overrides: Sequence[str], game: str | None, algorithms: Sequence[str]
) -> Iterator[Setup]:
    from rookery.evaluation.play import assign_seats
    from rookery.runs.folder import seeds_of
    from rookery.runs.run import Run

    seeds = seeds_of(path)
    for run in [Run(folder, game, algorithms) for folder in seeds or [path]]:
        config = changed_config(run, overrides)
        lineups = {"trained": seats_of(run), "as_trained": seats_of(run, greedy=False)}
        specs = [agent.spec for agent in run.agents]
        lineups |= {name: assign_seats(specs, name) for name in run.entry.players}
        yield Setup(run.entry, config, lineups, run, bool(seeds))


def seats_of(run: Run, greedy: bool = True) -> list[Seat]:
    """Return the trained agents and scripted players of a run, one per seat."""
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
    """Return a run's configuration with changed settings, and with a separate seed."""
    from rookery.runs.configure import configure

    for override in overrides:
        if not override.startswith(tuple(f"{name}=" for name in CHANGEABLE)):
            raise ConfigError(
                f"'{override}' cannot be changed after training; seed, worlds, "
                "evaluate.episodes and evaluate.turns can."
            )
    _, config = configure(run.entry.name, overrides, run.path / "config.toml")
    # So that the agents do not play the games that they were trained in.
    return config.model_copy(update={"seed": (config.seed + 2**61) % 2**63})


@run_or_game
def evaluate(setups: Iterator[Setup], folder: Path | None, as_json: bool) -> None:
    """Play without learning, and report the mean and spread of the returns."""
    from rookery.cli.output import matches_table, progress

    results: dict[str, dict[str, Match]] = {}
    for setup in setups:
        if folder is not None:
            _write_new_run(folder, setup)
        episodes = setup.config.evaluate.episodes
        matches = results[setup.run.path.name if setup.run and setup.is_seed else ""] = {}
        for label in setup.lineups:
            with progress(err, label, episodes, as_json) as advance:
                matches[label] = setup.play(label, episodes, progress=advance)
    if as_json:
        summaries = {name: _summary(matches) for name, matches in results.items()}
        print_json(summaries.get("", {"seeds": summaries}))
        return
    for name, matches in results.items():
        if name:
            out.print(Text(f"\n{name}", "bold"))
        out.print(matches_table(matches))


def _summary(matches: Mapping[str, Match]) -> dict[str, Any]:
    return {
        "episodes": min(len(match.episodes) for match in matches.values()),
        "players": {label: match.summary() for label, match in matches.items()},
    }


def _write_new_run(folder: Path | None, setup: Setup) -> Path:
    from rookery.config.toml import write_config
    from rookery.runs.folder import new_run

    path = new_run(folder, setup.entry.name)
    write_config(setup.config, path / "config.toml")
    return path


@run_or_game
def replay(setups: Iterator[Setup], folder: Path | None, as_json: bool) -> None:
    """Play one episode, and write a GIF and a recording of it."""
    from rookery.cli.output import write_replay
    from rookery.storage.access import cannot_write

    setup = next(setups)
    match = setup.play(next(iter(setup.lineups)), 1, record=True, film=1)
    if setup.run is None:
        path = _write_new_run(folder, setup)
        write_replay(out, match, path, "episode-0", as_json)
        return
    path, name = setup.run.path, f"trained-round-{setup.round_number}"
    try:
        write_replay(out, match, path, name, as_json)
    except OSError as error:
        if error.filename is None:  # it is standard output that cannot be written
            raise
        raise cannot_write(path, error) from error


def record(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    overrides: Overrides = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
) -> None:
    """Play with trained agents, and write every turn to a Parquet file."""
    from rookery.evaluation.tables import write_parquet
    from rookery.runs.run import Run

    opened = Run(run, named_game, named_algorithms or [])
    config = changed_config(opened, overrides or [])
    setup = Setup(opened.entry, config, {"trained": seats_of(opened)}, opened)
    episodes = config.evaluate.episodes
    with err.status(f"playing {episodes} episodes …"):
        match = setup.play("trained", episodes, record=True)
        table = match.table()
        write_parquet(table, file)
    tell(f"{file}: {len(table):,} rows of {len(match.episodes)} episodes")
