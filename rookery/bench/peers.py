"""Rookery compared with JAX, with a plain loop and with Tianshou, at equal work.

*Updates*: stacked double DQN on one core against JAX, batches drawn on both sides from the
same rows. Rookery and JAX take turns on the same core and can use no other.

*Training*: playing simple_spread and learning, one update per agent and world-turn, in one
process and in several, against a plain loop and Tianshou, which use one thread each.

Peers are looked for in this interpreter and in those that the environment variable
ROOKERY_PEERS lists, which can have other versions. What is not installed is left out, and
a note says so.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

from rookery.algorithms.dqn import DQN
from rookery.bench.contender import Contender, installed_version
from rookery.bench.dqn_task import DqnTask, TrainingTask, UpdateTask
from rookery.bench.measure import Report, alternate, rate
from rookery.bench.speedup import MANY, Rounds
from rookery.bench.update import Stacked
from rookery.config.agent import AgentSettings
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.games.registry import Entry
from rookery.replay.buffer import ReplayWriter
from rookery.replay.rows import Rows
from rookery.runs.configure import configure
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Part

GAME = "pettingzoo:mpe2.simple_spread_v3"
PEERS = "ROOKERY_PEERS"
XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
UNIT = "agent-updates/s"


@dataclass(frozen=True)
class Sizes:
    """The cases, and the number of measurements."""

    updates: tuple[UpdateTask, ...] = (
        UpdateTask(3, 128, updates=240),
        UpdateTask(8, 64, updates=240),
        UpdateTask(8, 128, updates=80),
        UpdateTask(32, 64, updates=80),
        UpdateTask(8, 256, updates=48),
    )
    training: tuple[TrainingTask, ...] = (
        TrainingTask(3, 256, updates=320),
        TrainingTask(3, 256, updates=320, layers=3),
    )
    workers: int = 2
    repeats: int = 5


FULL = Sizes()


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """Measure updates and training against all peers that are installed."""
    report = Report()
    _measure_updates(report, sizes, progress)
    _measure_training(report, sizes, progress)
    return report


def interpreters() -> list[str]:
    """Return this interpreter, and those that the environment lists.

    Raises:
        ConfigError: if one of them cannot be run.
    """
    listed = [path for path in os.environ.get(PEERS, "").split(os.pathsep) if path]
    for path in listed:
        if shutil.which(path) is None:
            raise ConfigError(
                f"{PEERS} lists '{path}', which cannot be run: expected paths of Python "
                f"interpreters, separated by '{os.pathsep}'."
            )
    return [sys.executable, *listed]


def find_peers(package: str) -> dict[str, str]:
    """Return the versions of a package that are installed, and an interpreter for each."""
    versions: dict[str, str] = {}
    for python in interpreters():
        version = installed_version(python, package)
        if version is not None:
            versions.setdefault(version, python)
    return versions


# Updates.


def _measure_updates(report: Report, sizes: Sizes, progress: Callable[[str], None]) -> None:
    versions = find_peers("jax")
    if not versions:
        report.notes.append(
            "JAX is not installed, so updates are not compared with it: "
            "pip install 'rookery[peers]' installs it."
        )
        return
    with one_core() as core:
        report.notes.append(
            f"updates: Rookery and JAX take turns on core {core}, with one thread each; "
            "drawing batches is included, and for JAX the faster of both ways counts."
        )
        for task in sizes.updates:
            progress(f"{task}: updates, Rookery and JAX {', '.join(versions)}")
            _compare_updates(report, task, versions, sizes.repeats)


def _compare_updates(
    report: Report, task: UpdateTask, versions: Mapping[str, str], repeats: int
) -> None:
    ours = stacked_learner(task)
    contenders: dict[str, Callable[[], float]] = {
        "rookery": lambda: rate(ours.learn, task.updates * task.agents)
    }
    with ExitStack() as processes:
        for version, python in versions.items():
            flags = {"XLA_FLAGS": XLA_FLAGS}
            ways = _start_peer(python, "jax_dqn", task, processes, flags)
            for way, measure in ways.items():
                contenders[f"jax {version}, {way}"] = measure
        rates = alternate(contenders, repeats)
    for name, value in rates.items():
        report.add_metric(f"update, {task}: {name}", value, UNIT)
    for version in versions:
        fastest = max(
            value for name, value in rates.items() if name.startswith(f"jax {version},")
        )
        ratio = rates["rookery"] / fastest
        report.ratios[f"update, {task}: rookery / jax {version}"] = ratio


@contextmanager
def one_core() -> Iterator[int]:
    """Keep this process, and those it starts meanwhile, on one core; return its number.

    The libraries' own settings for one thread do not bind all of JAX's threads.
    """
    allowed = os.sched_getaffinity(0)
    core = max(allowed)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, allowed)


def stacked_learner(task: UpdateTask) -> Stacked:
    """Return Rookery's side: a learner of all agents, reading real rows."""
    torch.set_num_threads(1)
    part = Part((task.inputs,), np.dtype(np.float32))
    actions = tuple(f"action {i}" for i in range(task.actions))
    spec = AgentSpec("0", "agent", {"numbers": part}, actions)
    rows = [fill_rows(task, spec, agent) for agent in range(task.agents)]
    settings = AgentSettings.model_validate(
        dqn_settings(task)
        | {"replay": {"capacity": task.worlds * (task.turns + 1), "warmup": task.batch}}
        | {"updates_per_round": task.updates}
    )
    return Stacked(spec, rows, task.turns + 1, settings, DQN)


def fill_rows(task: UpdateTask, spec: AgentSpec, agent: int) -> Rows:
    """Return an agent's rows, written as an actor writes them."""
    columns, turns = task.rows(agent), task.turns + 1
    rows = Rows(Block.private(Rows.layout(spec, task.worlds, turns + 1)))
    writer = ReplayWriter(rows)
    ended, active = np.zeros(task.worlds, bool), np.ones(task.worlds, bool)
    for turn in range(turns):
        age = np.full(task.worlds, turn, np.int32)
        observation = {"numbers": columns["observation"][turn]}
        writer.write_observation(turn, observation, active, None, age)
        writer.write_action(turn, columns["action"][turn], 1.0, 0)
        writer.write_outcome(turn, columns["reward"][turn], ended, ended)
    return rows


def dqn_settings(task: DqnTask) -> dict[str, Any]:
    """Return the settings of double DQN that make Rookery do what its peers do."""
    return {
        "algorithm": "dqn",
        "dqn": {"double": True, "dueling": False, "noisy": False, "threshold": 1.0},
        # A layer of DQN's own follows the encoder.
        "network": {"width": task.width, "depth": task.layers - 1, "channels": 0},
        "frames": 1,
        "n_step": 1,
        "batch_size": task.batch,
        "learning_rate": task.learning_rate,
        "discount": task.discount,
        "gradient": {"clip": task.clip, "accumulate": 1},
        "target": {"every": 1, "rate": task.target_rate},
    }


# Training.


def _measure_training(
    report: Report, sizes: Sizes, progress: Callable[[str], None]
) -> None:
    tianshou = _find_tianshou(report)
    report.notes.append(
        "training: every contender makes one update per agent and world-turn; the plain "
        "loop, like Rookery, uses double learning and clips gradients."
    )
    for task in sizes.training:
        progress(f"{task}: starting all contenders")
        with ExitStack() as running:
            ours = _start_rookery(task, sizes.workers, running)
            theirs = _start_peer(sys.executable, "plain_dqn", task, running)
            if tianshou is not None:
                theirs |= _start_peer(tianshou, "tianshou_dqn", task, running)
            progress(f"{task}: training, {', '.join([*ours, *theirs])}")
            rates = alternate(ours | theirs, sizes.repeats)
        for name, value in rates.items():
            report.add_metric(f"training, {task}: {name}", value, UNIT)
        for mine, peer in product(ours, theirs):
            ratio = rates[mine] / rates[peer]
            report.ratios[f"training, {task}: {mine} / {peer}"] = ratio


def _find_tianshou(report: Report) -> str | None:
    """Return an interpreter with Tianshou, or None; a note says which version, or why."""
    versions = find_peers("tianshou")
    if not versions:
        report.notes.append(
            "Tianshou is not installed, so it is left out. It needs an older pandas than "
            "Rookery's tests, so install it on its own, with "
            "python -m venv peer && peer/bin/pip install tianshou mpe2, and set "
            f"{PEERS}=peer/bin/python."
        )
        return None
    version, python = next(iter(versions.items()))
    report.notes.append(
        f"training: Tianshou {version} uses double learning; its DQN has no clipping and "
        "no soft target, so it copies the target now and then."
    )
    return python


def _start_rookery(
    task: TrainingTask, workers: int, running: ExitStack
) -> dict[str, Callable[[], float]]:
    """Return the measurements of Rookery in one process and in several."""
    measurements: dict[str, Callable[[], float]] = {}
    for count in (0, workers):
        rounds = Rounds(*training_configuration(task, count))
        running.callback(rounds.close)
        name = f"rookery, workers={count}"
        measurements[name] = partial(_updates_per_second, rounds, task)
    return measurements


def _start_peer(
    python: str,
    module: str,
    task: DqnTask,
    running: ExitStack,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Callable[[], float]]:
    """Start a peer in its own process; return its measurements by name."""
    peer = Contender(python, f"rookery.bench.{module}", asdict(task), environment)
    running.callback(peer.close)
    return {name: partial(peer.rate, name) for name in peer.measurements}


def training_configuration(task: TrainingTask, workers: int) -> tuple[Entry, Config]:
    """Return simple_spread and the configuration of a run that never ends."""
    settings = dqn_settings(task) | {
        "game": task.game,
        "worlds": task.worlds,
        "turns_per_round": task.turns,
        "updates_per_round": task.turns_per_round,
        "rounds": MANY,
        "workers": workers,
        "epsilon": {"start": task.epsilon, "end": task.epsilon},
        "replay": {"capacity": task.capacity, "warmup": task.warmup},
    }
    return configure(GAME, settings=settings)


def _updates_per_second(rounds: Rounds, task: TrainingTask) -> float:
    """Return updates of an agent per second, in as much training as the peers do."""
    return rounds.rate(task.rounds) * task.turns_per_round * task.agents
