"""Commands for studies of trained agents: what they share, and who gets on with whom."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from rookery.cli import output as views
from rookery.cli.options import AsJson, NamedAlgorithms, NamedGame, Overrides, RunFolder
from rookery.errors import ConfigError
from rookery.printing import err, out, print_json, tell
from rookery.runs.folder import is_run, seeds_of

Camps = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN…",
        help="Runs, folders of seeds, or players; and evaluate.episodes=50, seed=0.",
    ),
]
Picture = Annotated[
    Path | None, typer.Option(help="Where to write the matrix as a picture, such as x.png.")
]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the others."""
    app.command()(independence)
    app.command()(crossplay)
    app.command()(record)


def independence(
    run: RunFolder,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Prove that agents share nothing: alter one, compare the others bit by bit."""
    opened = import_module("rookery.runs.run").Run(run, named_game, named_algorithms or [])
    with err.status("playing a few short rounds …") as status:
        found = import_module("rookery.studies.independence.proof").independence(
            opened, lambda done, of: status.update(f"{done} of {of} trainings compared …")
        )
    if as_json:
        print_json(found.to_json())
    else:
        _print_independence(found)
    if not found.is_independent:
        raise typer.Exit(1)


def _print_independence(found: Any) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("altered in another agent")
    cells = found.table()
    for agent in cells:
        table.add_column(f"agent {agent}")
    hows = list(dict.fromkeys(how for one in cells.values() for how in one))
    for how in hows:
        table.add_row(how, *(one.get(how, "–") for one in cells.values()))
    out.print(table)
    for line in [*found.lines(), found.verdict]:
        tell(line)


def crossplay(
    camps: Camps,
    picture: Picture = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Let agents of several runs meet: what does a guest get among the others' agents?"""
    overrides = [override for override in camps if "=" in override]
    opened = [
        _opened(override, named_game, named_algorithms or [])
        for override in camps
        if override not in overrides
    ]
    with err.status("the first meeting …") as status:
        found = import_module("rookery.studies.crossplay").crossplay(
            opened,
            **_chosen(overrides),
            progress=lambda done, of: status.update(f"{done} of {of} meetings …"),
        )
    if as_json:
        print_json(found.to_json())
    else:
        _print_crossplay(found)
    if picture is not None:
        found.heat_map(picture)


def _opened(override: str, game: str | None, algorithms: list[str]) -> Any:
    """Return a run, the runs of a folder of seeds, or a player's name."""
    path = Path(override)
    if not is_run(path):
        return override
    runs = import_module("rookery.runs.run")
    found = [runs.Run(one, game, algorithms) for one in seeds_of(path) or [path]]
    return found if len(found) > 1 else found[0]


def _chosen(overrides: list[str]) -> dict[str, int]:
    names = {"evaluate.episodes": "episodes", "seed": "seed"}
    found = {}
    for override in overrides:
        key, _, value = override.partition("=")
        if key not in names or not value.isdecimal() or (key != "seed" and value == "0"):
            raise ConfigError(
                f"'{override}' cannot be chosen here: evaluate.episodes=50 and seed=0 can."
            )
        found[names[key]] = int(value)
    return found


def _print_crossplay(found: Any) -> None:
    header, *rows = found.rows()
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(header[0], style="cyan")
    for name in header[1:]:
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table)
    tell(found.note, style="dim")


def record(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    overrides: Overrides = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
) -> None:
    """Let trained agents play, and write all they did and got to a Parquet file."""
    commands, playing = (
        import_module("rookery.cli.train"),
        import_module("rookery.evaluation.play"),
    )
    opened = import_module("rookery.runs.run").Run(run, named_game, named_algorithms or [])
    config = commands.changed_config(opened, overrides or [])
    seats, episodes = commands.seats_of(opened), config.evaluate.episodes
    with err.status(f"playing {episodes} episodes …"):
        match = playing.play_match(
            opened.entry,
            config,
            seats,
            episodes=episodes,
            record=True,
            round_number=opened.rounds_with_weights[-1],
        )
        table = match.table()
        import_module("rookery.evaluation.tables").write_parquet(table, file)
    views.say_cut(match, config)
    tell(f"{file}: {len(table):,} rows of {len(match.episodes)} episodes")
