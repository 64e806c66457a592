"""The commands `replay` and `record`: play, and write what was played to files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.options import (
    AsJson,
    ConfigFile,
    GameOrRun,
    NamedAlgorithms,
    NamedGame,
    NewFolder,
    Overrides,
    Players,
    Round,
)
from rookery.errors import ConfigError
from rookery.printing import err, out, print_json, say, tell

if TYPE_CHECKING:
    from rookery.api.lineups import Setup
    from rookery.evaluation.recordings import Recording

Output = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="The file to write: .gif, .mp4 (needs ffmpeg), .png (a sheet of pictures) or "
        ".safetensors (the recording). By default a GIF and a recording in the run.",
    ),
]
Fps = Annotated[
    float | None, typer.Option("--fps", help="Turns per second; 8.3 by default.")
]
Size = Annotated[
    int | None, typer.Option("--size", help="Width of the pictures in pixels, about.")
]
EpisodeNumber = Annotated[
    int, typer.Option("--episode", help="Which episode to show, from 0.")
]


def replay(
    game: GameOrRun = None,
    overrides: Overrides = None,
    players: Players = None,
    round_number: Round = None,
    episode: EpisodeNumber = 0,
    output: Output = None,
    fps: Fps = None,
    size: Size = None,
    config_file: ConfigFile = None,
    run: NewFolder = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Play one episode, and write a GIF and a recording of it, or another film.

    A player can also be an agent of another run: RUN, RUN@ROUND, RUN:ID or RUN:ID@ROUND.
    """
    from rookery.api.replay import check_output, play_episode, setups
    from rookery.cli.output import print_match

    check_output(output or Path("replay.gif"), fps, size)
    setup = next(
        setups(
            game,
            players,
            round_number,
            overrides or [],
            config_file,
            named_game,
            named_algorithms or [],
        )
    )
    _check_folder(setup, run, output)
    match = play_episode(setup, episode, say)
    files = _write(setup, match.recordings[0], run, output, fps, size)
    if as_json:
        print_json({**files, **match.summary()})
        return
    print_match(out, next(iter(setup.lineups)), match)
    for name, path in files.items():
        if name != "run":
            tell(f"{LABELS[name]}: {path}")


LABELS = {"gif": "The episode", "recording": "Its recording", "out": "The episode"}


def _check_folder(setup: Setup, run: Path | None, output: Path | None) -> None:
    if run is not None and (setup.run is not None or output is not None):
        reason = "a run, which has its own" if setup.run else "--out, which names the file"
        raise ConfigError(f"--run cannot be used with {reason}: leave --run out.")


def _write(
    setup: Setup,
    recording: Recording,
    run: Path | None,
    output: Path | None,
    fps: float | None,
    size: int | None,
) -> dict[str, str]:
    """Write the files of a replay; return their paths by what they are."""
    from rookery.api.lineups import write_new_run
    from rookery.api.replay import file_name, write_out
    from rookery.storage.access import cannot_write

    if output is not None:
        write_out(recording, output, fps, size)
        return {"out": str(output)}
    folder = setup.run.path if setup.run else write_new_run(run, setup)
    name = file_name(setup, recording.episode)
    gif = folder / "replays" / f"{name}.gif"
    file = folder / "recordings" / f"{name}.safetensors"
    try:
        recording.write(gif, fps, size)
        recording.write(file)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return {"run": str(folder), "gif": str(gif), "recording": str(file)}


def record(
    run: GameOrRun,
    file: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    overrides: Overrides = None,
    players: Players = None,
    round_number: Round = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
) -> None:
    """Play without learning, and write every turn to a Parquet file."""
    from rookery.api.replay import play_all, setups
    from rookery.evaluation.tables import write_parquet

    setup = next(
        setups(
            run,
            players,
            round_number,
            overrides or [],
            None,
            named_game,
            named_algorithms or [],
        )
    )
    episodes = setup.config.evaluate.episodes
    with err.status(f"playing {episodes} episodes …"):
        match = play_all(setup, say)
        table = match.table()
        write_parquet(table, file)
    tell(f"{file}: {len(table):,} rows of {len(match.episodes)} episodes")
