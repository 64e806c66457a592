"""The command `evaluate`, and what it shares with `replay`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
)
from rookery.errors import ConfigError
from rookery.printing import err, out, print_json

if TYPE_CHECKING:
    from rookery.api.lineups import Setup
    from rookery.evaluation.play import Match


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
        from rookery.api.lineups import game_setups, run_setups
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
            setups = run_setups(
                Path(game), overrides or [], named_game, named_algorithms or []
            )
        else:
            setups = game_setups(game, overrides or [], players, config_file)
        command(setups, run, as_json)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    return wrapper


@run_or_game
def evaluate(setups: Iterator[Setup], folder: Path | None, as_json: bool) -> None:
    """Play without learning, and report the mean and spread of the returns."""
    from rookery.api.lineups import write_new_run
    from rookery.cli.output import matches_table, progress, say_cut

    results: dict[str, dict[str, Match]] = {}
    for setup in setups:
        if folder is not None:
            write_new_run(folder, setup)
        episodes = setup.config.evaluate.episodes
        matches = results[setup.run.path.name if setup.run and setup.is_seed else ""] = {}
        for label in setup.lineups:
            with progress(err, label, episodes, as_json) as advance:
                matches[label] = setup.play(label, episodes, progress=advance)
            say_cut(matches[label], setup.config)
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
