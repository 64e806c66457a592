"""A run on disk: its settings, results and trained agents, in one folder.

runs/<name>/config.toml  seal.json  changes.json  agents.json  metrics.jsonl  episodes.jsonl
            evaluations.jsonl  probes.jsonl  events.jsonl  tensorboard/
            checkpoints/ckpt-<round>/  weights/round-<k>.safetensors  recordings/  replays/
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.algorithms.agents import build_agents, weight_shapes
from rookery.algorithms.base import Agent
from rookery.algorithms.custom.loading import is_custom
from rookery.config.base import Settings
from rookery.config.messages import shown, single_line
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import read_toml
from rookery.errors import ArrayFileError, ConfigError, checked, nearest
from rookery.evaluation.play import agents_of
from rookery.evaluation.recordings import Recording
from rookery.evaluation.tables import pandas_or_advice, table_of
from rookery.evaluation.trained import TrainedAgent
from rookery.games.registry import Entry, entries_by_name, find
from rookery.local_code import is_local, name_of, short_name
from rookery.plugins import stands_in
from rookery.protocol.user_files import code_of_agent
from rookery.runs.changes import read_history
from rookery.runs.folder import CHECKPOINTS, CONFIG, no_run, refuse_links, seeds_of
from rookery.runs.log import (
    EPISODES,
    EVALUATIONS,
    METRICS,
    PROBES,
    lineup_name,
    read_lines,
    why_inexact,
)
from rookery.runs.overview import Overview
from rookery.runs.plots import plot_run
from rookery.runs.seal import describe, edited_settings, read_seal
from rookery.runs.specs_file import SPECS, check_memory, read_specs
from rookery.specs import AgentSpec, Array, own_arrays
from rookery.storage.access import entries, is_file
from rookery.storage.arrays import bytes_of, read_arrays, shapes_of
from rookery.storage.checkpoints import (
    checkpoints_in,
    digest,
    load_checkpoint,
    read_manifest,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

ROUND = re.compile(r"round-(\d+)\.safetensors")


class Run:
    """A run on disk: what it measured, and the agents it trained.

    Args:
        path: its folder.
        game: the game's name as in training, or its class, needed if it is not built in:
            code is never imported only because a folder names it.
        algorithm: the same for one or several algorithms that are not built in.
    """

    def __init__(
        self,
        path: str | Path,
        game: str | type | None = None,
        algorithm: str | type | Sequence[str | type] | None = None,
    ) -> None:
        self.path = Path(checked("path", path, str, Path))
        if not is_file(self.path / CONFIG):
            raise no_run(self.path)
        refuse_links(self.path)
        self._game = game if game is None or isinstance(game, str) else find(game).name
        listed = [algorithm] if isinstance(algorithm, str | type) else algorithm or ()
        self._algorithms = [name_of(x) if isinstance(x, type) else x for x in listed]

    @classmethod
    def seeds(
        cls,
        path: str | Path,
        game: str | type | None = None,
        algorithm: str | type | Sequence[str | type] | None = None,
    ) -> list[Run]:
        """Return the runs in a folder of seeds, in order."""
        return [cls(folder, game, algorithm) for folder in seeds_of(Path(path))]

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments it was opened with; cached properties are not pickled."""
        return {name: vars(self)[name] for name in ("path", "_game", "_algorithms")}

    def __repr__(self) -> str:
        try:
            return f"<Run {self.path}: {Overview(self.path)}>"
        except ConfigError:  # the folder is gone by now
            return f"<Run {self.path}>"

    @cached_property
    def entry(self) -> Entry:
        """The game that the run is trained in."""
        return trusted_entry(self.path, read_toml(self.path / CONFIG), self._game)

    @cached_property
    def config(self) -> Config:
        """All settings: `run.config.discount`, `run.config.game.settings.turns`."""
        return resolve(read_toml(self.path / CONFIG), self.entry.settings)

    @cached_property
    def agents(self) -> list[Agent]:
        """All agents with their settings; of new runs, the game's code is not needed."""
        specs = self._specs()
        config = self._config_without_game if self._is_without_game else self.config
        settings = [config.agent(spec.id) for spec in specs]
        learners = [agent for agent in settings if agent.player is None]
        used = [name for agent in learners for name in code_of_agent(agent)]
        if missing := untrusted_algorithms(used, self._algorithms):
            if is_local(missing[0]):
                raise undefined(self.path, missing[0], "algorithm")
            names = untrusted_algorithms(used, ())
            options = " ".join(f"--algorithm {name}" for name in names)
            raise ConfigError(
                f"{self.path} was trained with {missing[0]!r}, which is not built in. If "
                f"you trust this code, add: {options} (in Python: "
                f"algorithm={_quoted(names if len(names) > 1 else names[0])})"
            )
        agents = build_agents(config, specs)
        if self._is_without_game:
            check_memory(self.path / SPECS, agents)
        return agents

    def _specs(self) -> Sequence[AgentSpec]:
        """Return what the agents observe and can do, by the game or as recorded."""
        recorded = read_specs(self.path) if self._is_without_game else None
        return agents_of(self.entry, self.config) if recorded is None else recorded

    @cached_property
    def _is_without_game(self) -> bool:
        """Whether the game is code that was not named, and the agents are recorded."""
        is_named = self._game is not None or self.game_name in entries_by_name()
        return not is_named and is_file(self.path / SPECS)

    @cached_property
    def game_name(self) -> str:
        """The name of the game that the run is trained in."""
        return str(read_toml(self.path / CONFIG).get("game", {}).get("name"))

    @cached_property
    def _config_without_game(self) -> Config:
        """The configuration without the game's own settings, which its code declares."""
        tree = read_toml(self.path / CONFIG)
        return resolve({**tree, "game": {"name": self.game_name}}, Settings)

    @property
    def worlds(self) -> int:
        """The number of worlds that the agents are trained in."""
        return self._config_without_game.worlds

    def metrics(self) -> DataFrame:
        """Return the metrics of every agent and round, one row each (needs pandas)."""
        lines = read_lines(self.path / METRICS)
        rows = [
            {"round": line["round"], "agent": agent, **metrics}
            for line in lines
            for agent, metrics in line["agents"].items()
        ]
        return pandas_or_advice().DataFrame(rows)

    def episodes(self) -> DataFrame:
        """Return every finished episode, one row per agent (needs pandas).

        `steps` is the number of the agent's own steps up to the end of that round, as in
        `metrics`; the game's counts are columns.
        """
        rows, steps = [], self._steps()
        for line in read_lines(self.path / EPISODES):
            episode = {key: line[key] for key in ("round", "world", "episode", "turns")}
            for agent, value in line["returns"].items():
                so_far = {"steps": steps.get((line["round"], agent))}
                counts = {name: count[agent] for name, count in line["counts"].items()}
                rows.append(
                    {**episode, "agent": agent, **so_far, "return": value, **counts}
                )
        return pandas_or_advice().DataFrame(rows)

    def evaluations(self) -> DataFrame:
        """Return every evaluation during training, one row per agent (needs pandas).

        `players` is `trained` (greedy) or `as_trained` (with exploration), `mean` the
        agent's mean return, and `steps` the number of its own steps up to that round; the
        game's counts are means per episode.
        """
        rows, steps = [], self._steps()
        for line in read_lines(self.path / EVALUATIONS):
            counts = line.get("counts", {})
            for agent, mean in line["agents"].items():
                rows.append(
                    {
                        "round": line["round"],
                        "players": lineup_name(line["players"]),
                        "agent": agent,
                        "steps": steps.get((line["round"], agent)),
                        "mean": mean,
                        **{name: x["agents"][agent] for name, x in counts.items()},
                    }
                )
        return pandas_or_advice().DataFrame(rows)

    def _steps(self) -> dict[tuple[int, str], float | None]:
        """Return the steps of every agent up to the end of every round."""
        return {
            (line["round"], agent): metrics.get("steps")
            for line in read_lines(self.path / METRICS)
            for agent, metrics in line["agents"].items()
        }

    def probes(self) -> DataFrame:
        """Return what the run's probe measured, one row per call (needs pandas)."""
        lines = read_lines(self.path / PROBES)
        rows = [{"round": line["round"], **line["figures"]} for line in lines]
        return pandas_or_advice().DataFrame(rows)

    def plot(self, metric: str = "return", ax: Axes | None = None) -> Axes:
        """Draw the learning curve of every agent, and return the axes (needs matplotlib).

        Args:
            metric: `return`, a count of the game, `trained` (evaluations during training),
                or a metric such as `loss`.
            ax: the axes to draw in; by default new ones.
        """
        return plot_run(Overview(self.path), metric, ax)

    def recordings(self) -> DataFrame:
        """Return the episodes that were recorded during training (needs pandas).

        There is one row per round, turn and agent: its action, its reward, and the facts.
        """
        tables = []
        for number, path in self._numbered("recordings"):
            table = table_of([Recording.load(path)])
            table.insert(0, "round", number)
            tables.append(table)
        pandas = pandas_or_advice()
        return pandas.concat(tables, ignore_index=True) if tables else pandas.DataFrame()

    def _numbered(self, folder: str) -> list[tuple[int, Path]]:
        """Return the files of a folder that are named after a round, in order."""
        named = [(ROUND.fullmatch(p.name), p) for p in entries(self.path / folder)]
        return sorted((int(match[1]), path) for match, path in named if match)

    @property
    def rounds_with_weights(self) -> list[int]:
        """The rounds whose weights were saved."""
        return [number for number, _ in self._numbered("weights")]

    def players(self, round: int | None = None) -> Agents:
        """Return the trained agents by id, as they were after a round or the last."""
        saved = self.rounds_with_weights
        if not saved:
            raise ConfigError(f"{self.path} has no weights yet: train it for some rounds.")
        number = saved[-1] if round is None else round
        if number not in saved:
            raise ConfigError(
                f"{self.path} has no weights of round {number}; it has those of "
                f"{', '.join(map(str, saved))}."
            )
        weights = self._read_weights(number)
        trained = {
            agent.id: TrainedAgent(
                agent,
                own,
                f"{self.path}:{agent.id}@{number}",
                worlds=self.worlds,
                game=self.game_name,
                round=number,
            )
            for agent in self.agents
            if (own := own_arrays(agent.id, weight_shapes(agent), weights))
        }
        return Agents(self.path, trained)

    def _read_weights(self, number: int) -> dict[str, Array]:
        """Return the weights of a round, after comparing their shapes with the agents."""
        path = self.path / "weights" / f"round-{number}.safetensors"
        shapes = {
            f"{agent.id}/{name}": shape
            for agent in self.agents
            for name, shape in weight_shapes(agent).items()
        }
        arrays, _ = read_arrays(path, bytes_of(shapes))
        if shapes_of(arrays) != shapes:
            raise ConfigError(
                f"{path} does not fit this run: its settings have changed since; put "
                f"{CONFIG} back as it was."
            )
        return arrays

    def exploration(self, agent: str, round: int | None = None) -> float:
        """Return an agent's probability of a random action in a round or the last."""
        lines = read_lines(self.path / METRICS)
        if round is not None:
            lines = [line for line in lines if line.get("round") == round]
        metrics = lines[-1]["agents"].get(agent, {}) if lines else {}
        return float(metrics.get("epsilon") or 0.0)

    @property
    def is_exact(self) -> bool:
        """Whether it is, to the bit, the run that its settings and seed determine.

        False with schedule=async, where the result depends on timing; after a game without
        snapshots has lost its process; and after the run was resumed without its replays,
        without its seal, with changed files of the user, or with other software.
        """
        checkpoints = checkpoints_in(self.path / CHECKPOINTS)
        return not self._why_inexact(read_manifest(checkpoints[0]) if checkpoints else {})

    def _why_inexact(self, manifest: Mapping[str, Any]) -> str:
        """Return why it is not exact; '' if it is.

        The checkpoint records it, too: on a full disk the event may not have been written.
        """
        if "async" in (self.config.schedule, manifest.get("schedule")):
            return "with schedule=async the result depends on timing."
        history = read_history(self.path)
        why = manifest.get("inexact") or why_inexact(self.path) or history.why_inexact()
        if why:
            return str(why)
        seal = read_seal(self.path)
        ids = [spec.id for spec in agents_of(self.entry, self.config)]
        edits = edited_settings(self.path, seal, self.config, ids) if seal else {}
        if not edits:
            return ""
        return f"{CONFIG} has changed since the run started: {describe(edits)}."

    def digest(self) -> dict[str, Any]:
        """Return the SHA-256 of every agent's state and experience, and one of the run."""
        checkpoints = checkpoints_in(self.path / CHECKPOINTS)
        if not checkpoints:
            raise ConfigError(
                f"{self.path} has no checkpoint yet: let it finish, or stop it."
            )
        files, manifest = load_checkpoint(checkpoints[0], _check_rows)
        agents = {
            agent: digest(files.get(f"agent-{i}", {}), rows)
            for i, (agent, rows) in enumerate(manifest["rows"].items())
        }
        whole = digest({}, " ".join(agents.values()))
        why = self._why_inexact(manifest)
        return {"agents": agents, "run": whole, "exact": not why, "why": why}


def _check_rows(manifest: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
    rows = manifest.get("rows")
    if not isinstance(rows, dict) or not all(isinstance(x, str) for x in rows.values()):
        raise ArrayFileError("the checkpoint's manifest is damaged: it has no row hashes.")


def trusted_entry(path: Path, tree: Mapping[str, Any], game: str | None) -> Entry:
    """Return the game in a run's settings, if it is built in or the user named it, too."""
    written = str(tree.get("game", {}).get("name"))
    named = [game] if game is not None else []
    if written in entries_by_name() or is_named(written, named):
        return find(written)
    if is_local(written):
        raise undefined(path, written, "game")
    if game is None:
        fault, remedy = "which is not a built-in game", "add"
    else:
        fault, remedy = f"and {shown(game)} was given", "give instead"
    raise ConfigError(
        f"{path} was trained in {written!r}, {fault}. If you trust this code, {remedy}: "
        f"--game {written} (in Python: game={_quoted(written)})"
    )


def is_named(written: str, named: Iterable[str]) -> bool:
    """Whether the user named the code that a run has recorded, maybe by another path."""
    names = list(named)
    same = any(_is_same_code(written, name) for name in names)
    return same or stands_in(written, names)


def _is_same_code(name: str, other: str) -> bool:
    if name == other:
        return True
    (file, _, code), (other_file, _, other_code) = (
        x.rpartition(":") for x in (name, other)
    )
    return (
        code == other_code
        and file.endswith(".py")
        and other_file.endswith(".py")
        and Path(file).resolve() == Path(other_file).resolve()
    )


def _quoted(value: str | Sequence[str]) -> str:
    """Return names as they are written in Python."""
    return json.dumps(value, ensure_ascii=False)


def undefined(path: Path, name: str, argument: str) -> ConfigError:
    """Return the error for a run whose code was in a notebook or a script."""
    code = short_name(name)
    return ConfigError(
        f"{path} was trained with {name!r}, which was defined in a notebook or a script: "
        f"define {code} again and pass it, as in rookery.Run(…, {argument}={code}), or put "
        f"it into a file and add: --{argument} ./file.py:{code}"
    )


def untrusted_algorithms(used: Iterable[str], named: Iterable[str]) -> list[str]:
    """Return the algorithms that are not built in and that the user has not named."""
    trusted, custom = list(named), {name for name in used if is_custom(name)}
    return sorted(single_line(name) for name in custom if not is_named(name, trusted))


class Agents(dict[str, TrainedAgent]):
    """Trained agents by id; an id that is a number can also be given as an int."""

    def __init__(self, path: Path, agents: Mapping[str, TrainedAgent]) -> None:
        super().__init__(agents)
        self._path = path

    def __missing__(self, key: Any) -> TrainedAgent:
        if str(key) != key and str(key) in self:
            return self[str(key)]
        raise ConfigError(
            f"{self._path} has no trained agent '{key}': {nearest(str(key), self)}"
        )
