"""The commands `replay` and `record`: play, and write what was played to files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.evaluate import run_or_game
from rookery.cli.options import NamedAlgorithms, NamedGame, Overrides, RunFolder
from rookery.printing import err, out, tell

if TYPE_CHECKING:
    from rookery.api.lineups import Setup


@run_or_game
def replay(setups: Iterator[Setup], folder: Path | None, as_json: bool) -> None:
    """Play one episode, and write a GIF and a recording of it."""
    from rookery.api.lineups import write_new_run
    from rookery.cli.output import say_cut, write_replay
    from rookery.storage.access import cannot_write

    setup = next(setups)
    match = setup.play(next(iter(setup.lineups)), 1, record=True, film=1)
    say_cut(match, setup.config)
    if setup.run is None:
        path = write_new_run(folder, setup)
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
    from rookery.api.lineups import Setup, changed_config, seats_of
    from rookery.cli.output import say_cut
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
    say_cut(match, config)
    tell(f"{file}: {len(table):,} rows of {len(match.episodes)} episodes")
