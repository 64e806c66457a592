"""`rookery.train` and `rookery.resume`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.algorithms.torch_setup import standard_state
from rookery.runs.configure import configure
from rookery.runs.folder import new_run
from rookery.runs.resume import resumed_config
from rookery.runs.run import Run
from rookery.runs.session import Session
from rookery.stdio import guarded
from rookery.training.training import Round


@guarded()
@standard_state()
def train(
    game: str,
    /,
    *,
    run: str | Path | None = None,
    show: Callable[[Round], None] = lambda result: None,
    **settings: Any,
) -> Run:
    """Train the agents of a game and return the run.

    Args:
        game: a name from `rookery games`, or `./mine.py:Zap`.
        run: its folder; by default the next free one in runs/.
        show: called after every round with its result.
        **settings: as on the command line: `rounds=300`, `agents={1: {…}}`,
            `game={"agents": 4}`, or dotted in a mapping: `**{"replay.capacity": 50_000}`.
    """
    entry, config = configure(game, settings=settings)
    path = new_run(Path(run) if run is not None else None, entry.name)
    session = Session(entry, config, path)
    session.run(show)
    algorithms = [agent.settings.algorithm for agent in session.training.agents]
    return Run(path, game, algorithms)


@guarded()
@standard_state()
def resume(
    run: str | Path,
    game: str | Mapping[str, Any] | None = None,
    algorithm: str | Sequence[str] | None = None,
    *,
    probe: str | Mapping[str, Any] | None = None,
    show: Callable[[Round], None] = lambda result: None,
    **settings: Any,
) -> Run:
    """Resume a run that was stopped, failed or was killed, or train it longer; return it.

    Args:
        run: its folder.
        game: the game's name as in training, if it is not built in.
        algorithm: the same for algorithms that are not built in.
        probe: the same for the run's probe; or another one, or settings as in `train`.
        show: called after every round with its result.
        **settings: to change from here on, as in `train`: `rounds=400`,
            `evaluate={"every_rounds": 10}`. They are written into the run's folder.
    """
    if isinstance(game, Mapping):  # settings, as in `train`
        settings["game"], game = game, None
    opened = Run(run, game, algorithm)
    _ = opened.agents  # report all errors before the start
    if probe is not None:
        settings["probe"] = {"code": probe} if isinstance(probe, str) else probe
    config = resumed_config(opened, settings=settings)
    Session(opened.entry, config, opened.path, resume=True).run(show)
    return Run(run, game, algorithm)  # its settings may have changed
