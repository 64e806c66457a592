"""`rookery.train` and `rookery.resume`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, overload

import numpy as np

from rookery.algorithms.torch_setup import standard_state
from rookery.api.display import in_notebook
from rookery.api.progress import Progress
from rookery.api.results import Runs
from rookery.api.sweep import train_cells
from rookery.api.sweep_results import Sweep
from rookery.config.messages import shown
from rookery.config.run import Config
from rookery.errors import ConfigError, checked, warn
from rookery.games.registry import find
from rookery.local_code import is_code, is_local, name_of, short_name
from rookery.printing import err, say
from rookery.protocol.user_files import algorithms_of, code_of
from rookery.runs.configure import configure, tree_of
from rookery.runs.folder import is_sweep, new_run
from rookery.runs.resume import probes_in, resumed_config
from rookery.runs.run import Run
from rookery.runs.session import Session
from rookery.stdio import guarded
from rookery.stop import StopFlag, Stopped
from rookery.sweeps.axes import parse_seeds
from rookery.sweeps.cells import is_done
from rookery.sweeps.plan import Plan
from rookery.sweeps.planning import plan_seeds, side_by_side
from rookery.sweeps.resume import resumed_plan
from rookery.sweeps.trust import Named
from rookery.sweeps.work import open_cell
from rookery.training.training import Round

Callback = Callable[[Round], bool | None]


@overload
def train(
    game: str | type,
    /,
    *,
    seeds: None = None,
    run: str | Path | None = None,
    progress: bool | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> Run: ...


@overload
def train(
    game: str | type,
    /,
    *,
    seeds: str | Iterable[int],
    run: str | Path | None = None,
    progress: bool | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> Runs: ...


@guarded()
@standard_state()
def train(
    game: str | type,
    /,
    *,
    seeds: str | Iterable[int] | None = None,
    run: str | Path | None = None,
    progress: bool | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> Run | Runs:
    """Train the agents of a game and return the run.

    Args:
        game: a name from `rookery games`, `./mine.py:Zap`, or the class itself.
        seeds: several seeds instead of one, as `range(10)`, `[1, 4, 7]` or `"0..9"`. They
            are trained side by side, and the result is a list of runs. With a callback, or
            with classes that other processes cannot import, they are trained one by one.
        run: the folder; by default the next free one in runs/.
        progress: whether to show it: by default live in a terminal or a notebook, and not
            elsewhere. True prints a line every ten seconds elsewhere; False is silent.
        callback: called after every round with a `Round`. If it returns True, the run
            (with `seeds`, the run of this seed) stops and is saved, and can be resumed. If
            it raises, the run is saved, too.
        **settings: as on the command line: `rounds=300`, `agents={1: {…}}`,
            `game={"agents": 4}`, or dotted in a mapping: `**{"replay.capacity": 50_000}`.
            Classes can stand for their names: `algorithm=MyNetwork`.

    Warnings are Python warnings (`RookeryWarning`), and are in the run's events.jsonl.
    """
    if "show" in settings:
        raise ConfigError("train has no 'show': write callback=….")
    output = Output(progress, callback)
    entry, config = configure(game, settings=settings)
    folder = None if run is None else Path(checked("run", run, str, Path))
    numbers = None if seeds is None else parse_seeds(seeds)
    config = _in_one_process(config, output)
    algorithms = [*algorithms_of(config).values()]
    if numbers is None:
        path = new_run(folder, entry.name)
        output.train(Session(entry, config, path, output.stop))
        return Run(path, entry.name, algorithms)
    if callback is None and not _local_code(config):
        plan = plan_seeds(entry, side_by_side(config), numbers, folder)
        train_cells(plan, progress)
    else:
        plan = plan_seeds(entry, config, numbers, folder)
        _train_in_turn(plan, output)
    return Runs(plan.folder, Run.seeds(plan.folder, entry.name, algorithms))


@guarded()
@standard_state()
def resume(
    run: str | Path,
    game: str | type | Mapping[str, Any] | None = None,
    algorithm: str | type | Sequence[str | type] | None = None,
    *,
    probe: str | Callable[..., Any] | Mapping[str, Any] | None = None,
    progress: bool | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> Run | Runs | Sweep:
    """Resume a run that was stopped, failed or was killed, or train it longer; return it.

    Args:
        run: its folder, or a folder of seeds or of a sweep, of which all that is not done
            is trained. Several processes can do that at the same time: they share out the
            runs, and each returns when all are done.
        game: the game as in training, by name or as a class, if it is not built in.
        algorithm: the same for algorithms that are not built in.
        probe: the same for the run's probe; or another one, or settings as in `train`.
        progress: as in `rookery.train`.
        callback: as in `rookery.train`.
        **settings: to change from here on, as in `rookery.train`: `rounds=400`,
            `evaluate={"every_rounds": 10}`. They are written into the run's folder.
    """
    output = Output(progress, callback)
    path = Path(checked("run", run, str, Path))
    if isinstance(game, Mapping):  # settings, as in `train`
        settings["game"], game = game, None
    if probe is not None:
        settings["probe"] = probe if isinstance(probe, Mapping) else {"code": probe}
    if is_sweep(path):
        return _resume_sweep(path, game, algorithm, settings, output)
    return _resume_one(path, game, algorithm, settings, output)


def _resume_one(
    path: Path, game: Any, algorithm: Any, settings: Mapping[str, Any], output: Output
) -> Run:
    opened = Run(path, game, algorithm)
    _ = opened.agents  # report all errors before the start
    config = _in_one_process(resumed_config(opened, settings=settings), output)
    output.train(Session(opened.entry, config, path, output.stop, resume=True))
    return Run(path, game, algorithm)  # its settings may have changed


def _resume_sweep(
    path: Path, game: Any, algorithm: Any, settings: Mapping[str, Any], output: Output
) -> Runs | Sweep:
    name = game if game is None or isinstance(game, str) else find(game).name
    listed = [algorithm] if isinstance(algorithm, str | type) else algorithm or ()
    algorithms, tree = [_name(code) for code in listed], tree_of(settings)
    probes, games = probes_in(tree), [] if name is None else [name]
    plan = resumed_plan(path, Named(games, algorithms, probes), tree, output.say)
    if plan.search is not None and output.callback is not None:
        raise ConfigError(
            f"{path} is a search, which is trained in processes of its own: resume it "
            "without a callback."
        )
    if output.callback is None and not any(map(is_local, [*games, *algorithms, *probes])):
        train_cells(plan, output.progress)
    else:
        _train_in_turn(plan, output)
    if not plan.is_seeds:
        return Sweep(path)
    return Runs(path, Run.seeds(path, name, algorithms))


def _train_in_turn(plan: Plan, output: Output) -> None:
    """Train all cells that are not done, one after the other, in this process."""
    for cell in plan.cells:
        if not is_done(cell):
            output.train(
                open_cell(
                    plan, cell, output.stop, lambda config: _in_one_process(config, output)
                )
            )


class Output:
    """What a training shows to the user, and what it asks: progress, lines, callback."""

    def __init__(self, progress: bool | None, callback: Callback | None) -> None:
        if progress is not None:
            checked("progress", progress, bool)
        if callback is not None and not callable(callback):
            raise ConfigError(f"callback is {shown(repr(callback))}, expected a function.")
        self.callback, self.progress = callback, progress
        self.notes: list[str] = []
        """Lines that were shown, and belong in the log of every run."""
        self.stop = StopFlag()
        self.quiet = progress is False
        if progress is None:
            self.quiet = not (err.is_terminal or in_notebook())
        self.say: Callable[[str], None] = _ignore if progress is False else say

    def train(self, session: Session) -> None:
        """Train a session to its end, or until the callback stops it."""
        session.say, session.show_warning = self.say, warn
        for line in self.notes:
            session.log.event("note", line=line)
        if session.note:
            self.say(session.note)
        with suppress(Stopped), Progress(err, session, self.quiet) as progress:
            session.run(lambda result: self._end_round(progress, result))

    def _end_round(self, progress: Progress, result: Round) -> None:
        progress.show(result)
        answer = None if self.callback is None else self.callback(result)
        if isinstance(answer, bool | np.bool):
            if answer:
                raise Stopped
        elif answer is not None:
            raise ConfigError(
                f"callback returned {shown(repr(answer))} after round {result.number}: "
                "return True to stop the run, and None to continue."
            )


def _ignore(line: str) -> None:
    """Show nothing."""


def _name(code: Any) -> str:
    return name_of(code) if is_code(code) else str(code)


def _local_code(config: Config) -> list[str]:
    """Return the names of code that no other process can import."""
    return sorted(set(filter(is_local, [*code_of(config), config.probe.code or ""])))


def _in_one_process(config: Config, output: Output) -> Config:
    """Return a configuration without workers, if they could not import the user's code."""
    if not (local := _local_code(config)):
        return config
    names, several = " and ".join(sorted(map(short_name, local))), len(local) > 1
    where = f"{'are' if several else 'is'} defined in a notebook or a script, where workers"
    reason = f"{names} {where} cannot import {'them' if several else 'it'}"
    if config.workers not in ("auto", 0):
        raise ConfigError(
            f"workers is {config.workers}, but {reason}: leave workers out, or use code "
            "in a file."
        )
    if config.workers == "auto":
        line = f"one process (workers=0): {reason}. Code in a file can have workers."
        output.notes.append(line)
        output.say(line)
    return config.model_copy(update={"workers": 0})
