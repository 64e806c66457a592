"""`rookery bench peers`: the contenders do the same work, and what is missing is named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.dqn import DQN, DqnLearner
from rookery.bench import peers
from rookery.bench.contender import Contender, installed_version
from rookery.bench.dqn_task import TrainingTask, UpdateTask
from rookery.bench.measure import Report
from rookery.bench.plain_dqn import PlainAgent, PlainLoop
from rookery.config.agent import AgentSettings
from rookery.errors import ConfigError, RookeryError
from rookery.learner.learner import reader_of
from rookery.specs import AgentSpec, Array, Part

UPDATE = UpdateTask(
    2, 8, updates=3, batch=6, inputs=5, actions=3, worlds=2, turns=20, clip=0.05
)
TRAINING = TrainingTask(
    3, 8, updates=8, batch=4, worlds=2, turns=4, capacity=500, warmup=10
)
SPEC = AgentSpec(
    "0", "agent", {"numbers": Part((5,), np.dtype(np.float32))}, ("a", "b", "c")
)
UPDATES = 3
needs_jax = pytest.mark.skipif(
    find_spec("jax") is None, reason="jax is not installed: pip install 'rookery[peers]'"
)

JAX_UPDATES = """
import sys, jax, numpy as np
from rookery.bench.dqn_task import UpdateTask
from rookery.bench.jax_dqn import Stacked
stacked = Stacked(UpdateTask(**eval(sys.argv[1])))
arrays = {}
def keep(name):
    for i, (weight, bias) in enumerate(stacked.state.weights):
        arrays[f"{name}.{i}.weight"] = np.array(weight[0]).T
        arrays[f"{name}.{i}.bias"] = np.array(bias[0])
keep("before")
batches = []
for _ in range(int(sys.argv[3])):
    _, drawing = jax.random.split(stacked.state.key[0])
    batches.append(jax.random.randint(drawing, (6,), 0, 40))
    stacked.state, _ = stacked.update(stacked.state, stacked.replay)
arrays["opened"] = np.array(batches)
keep("after")
np.savez(sys.argv[2], **arrays)
"""
"""Run in another process, since JAX's threads would stay in this one."""


# Equal work.


@needs_jax
def test_updates_of_jax_and_of_the_plain_loop_are_the_same_up_to_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "weights.npz")
    arguments = [str(asdict(UPDATE)), file, str(UPDATES)]
    subprocess.run([sys.executable, "-c", JAX_UPDATES, *arguments], check=True)
    arrays = np.load(file)
    plain = plain_agent()
    load(plain, [arrays[f"before.{i}.{kind}"] for i in range(3) for kind in KINDS])
    batches = iter([batch_of(opened) for opened in arrays["opened"]])
    monkeypatch.setattr(plain.replay, "sample", lambda size: next(batches))

    for _ in range(UPDATES):
        plain.learn()

    expected = [arrays[f"after.{i}.{kind}"] for i in range(3) for kind in KINDS]
    assert_same_weights(plain, expected)


def test_updates_of_rookery_and_of_the_plain_loop_are_the_same_up_to_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = AgentSettings.model_validate(
        peers.dqn_settings(UPDATE)
        | {"replay": {"capacity": 42, "warmup": 1}, "updates_per_round": UPDATES}
    )
    agent = Agent(0, SPEC, settings, DQN, learns=True)
    reader = reader_of(agent, peers.fill_rows(UPDATE, SPEC, 0), 21)
    reader.advance(21)
    learner = DqnLearner([agent], seed=1)
    learner.load([learner.initial(agent)])
    plain = plain_agent()
    load(plain, weights_of(learner))
    draws = np.random.default_rng(0).random((1, UPDATE.batch))
    monkeypatch.setattr(
        learner.stream, "uniform", lambda key, *_: np.tile(draws, (len(key[0]), 1))
    )
    batch = batch_of(reader.sample(draws[0]))
    monkeypatch.setattr(plain.replay, "sample", lambda size: batch)

    metrics = learner.learn([reader], 1, 0)[0]
    for _ in range(UPDATES):
        plain.learn()

    assert metrics["gradient_norm"] > UPDATE.clip  # so that it is clipped
    assert_same_weights(plain, weights_of(learner))


def test_a_transition_has_the_same_number_in_rookery_and_in_jax() -> None:
    settings = AgentSettings.model_validate(
        peers.dqn_settings(UPDATE) | {"replay": {"capacity": 42, "warmup": 1}}
    )
    reader = reader_of(
        Agent(0, SPEC, settings, DQN, learns=True), peers.fill_rows(UPDATE, SPEC, 0), 21
    )
    reader.advance(21)
    numbers = np.arange(UPDATE.turns * UPDATE.worlds)

    batch = reader.batch(reader.usable)

    assert reader.usable.tolist() == numbers.tolist()
    seen, actions, rewards, next_seen, _ = (part.numpy() for part in batch_of(numbers))
    assert np.array_equal(batch.seen["numbers"][:, 0], seen)
    assert np.array_equal(batch.next_seen["numbers"][:, 0], next_seen)
    assert np.array_equal(batch.actions, actions)
    assert np.array_equal(batch.returns, rewards)
    assert set(batch.discounts.tolist()) == {np.float32(UPDATE.discount)}


def test_the_plain_loop_updates_every_agent_once_per_turn_after_the_warmup() -> None:
    loop = PlainLoop(TRAINING, basic=False)
    before = [steps_of(agent) for agent in loop.agents.values()]

    loop.train(30)

    assert before == [10] * 3
    assert [steps_of(agent) for agent in loop.agents.values()] == [40] * 3
    assert [agent.replay.count for agent in loop.agents.values()] == [50] * 3


def test_rookery_makes_one_update_per_agent_and_world_turn() -> None:
    rounds = peers.Rounds(*peers.training_configuration(TRAINING, workers=0))

    result = rounds.next()

    metrics = result.learned.metrics
    assert {agent: own["updates"] for agent, own in metrics.items()} == dict.fromkeys(
        ("agent_0", "agent_1", "agent_2"), TRAINING.worlds * TRAINING.turns
    )
    rounds.close()


# The whole benchmark.


@needs_jax
def test_peers_are_compared_and_a_note_names_the_one_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(peers.PEERS, raising=False)
    find = peers.find_peers
    monkeypatch.setattr(
        peers, "find_peers", lambda name: {} if name == "tianshou" else find(name)
    )
    progress: list[str] = []

    report = peers.run(progress.append, peers.Sizes((UPDATE,), (TRAINING,), 1, 1))

    version = installed_version(sys.executable, "jax")
    update, training = f"update, {UPDATE}", f"training, {TRAINING}"
    assert set(report.ratios) == {
        f"{update}: rookery / jax {version}",
        *(
            f"{training}: rookery, workers={workers} / {peer}"
            for workers in (0, 1)
            for peer in ("plain loop", "plain loop without double and clipping")
        ),
    }
    assert all(ratio > 0 for ratio in report.ratios.values())
    for way in ("one update per call", "scanned"):
        assert report.metrics[f"{update}: jax {version}, {way}"]["value"] > 0
    assert any("Tianshou is not installed" in note for note in report.to_json()["notes"])
    assert len(progress) == 3


def test_tianshou_trains_with_one_world_and_with_several() -> None:
    versions = peers.find_peers("tianshou")
    if not versions:
        pytest.skip(f"Tianshou is in no interpreter of {peers.PEERS}: see docs/training.md")
    python = next(iter(versions.values()))

    peer = Contender(python, "rookery.bench.tianshou_dqn", asdict(TRAINING))

    assert peer.measurements == ["tianshou, 1 world", "tianshou, 2 worlds"]
    assert all(peer.rate(name) > 0 for name in peer.measurements)
    peer.close()


def test_without_jax_a_note_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, bare_python: str
) -> None:
    monkeypatch.setattr(peers, "interpreters", lambda: [bare_python])
    report = Report()

    peers._measure_updates(report, peers.FULL, lambda done: None)

    assert not report.ratios
    assert report.notes == [
        "JAX is not installed, so updates are not compared with it: "
        "pip install 'rookery[peers]' installs it."
    ]


# Interpreters and processes.


def test_versions_are_looked_up_in_every_interpreter(
    monkeypatch: pytest.MonkeyPatch, bare_python: str
) -> None:
    monkeypatch.setenv(peers.PEERS, bare_python)

    assert peers.interpreters() == [sys.executable, bare_python]
    assert peers.find_peers("numpy") == {np.__version__: sys.executable}
    assert installed_version(bare_python, "numpy") is None


def test_an_interpreter_that_cannot_be_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(peers.PEERS, "/nowhere/python")

    with pytest.raises(ConfigError) as caught:
        peers.interpreters()

    assert str(caught.value) == (
        "ROOKERY_PEERS lists '/nowhere/python', which cannot be run: expected paths of "
        "Python interpreters, separated by ':'."
    )


def test_a_contender_that_fails_is_named_with_its_error(bare_python: str) -> None:
    with pytest.raises(RookeryError) as caught:
        Contender(bare_python, "rookery.bench.plain_dqn", {})

    message = str(caught.value)
    assert message.startswith(f"{bare_python} (rookery.bench.plain_dqn) ended instead of")
    assert "ModuleNotFoundError: No module named" in message
    assert message.endswith("install them there, or use another one.")


def test_updates_are_measured_on_one_core_by_all_processes() -> None:
    before = os.sched_getaffinity(0)
    command = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]

    with peers.one_core() as core:
        child = subprocess.run(command, capture_output=True, text=True, check=True)
        assert os.sched_getaffinity(0) == {core}

    assert child.stdout.strip() == str({core})
    assert os.sched_getaffinity(0) == before


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return an interpreter without any packages."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return str(folder / "bin" / "python")


KINDS = ("weight", "bias")


def plain_agent() -> PlainAgent:
    torch.set_num_threads(1)
    task = TrainingTask(1, UPDATE.width, updates=1, batch=UPDATE.batch, clip=UPDATE.clip)
    return PlainAgent(UPDATE.inputs, UPDATE.actions, task, seed=0, basic=False)


def batch_of(opened: Array) -> list[Tensor]:
    """Return transitions of agent 0 by number, as the plain replay returns a batch."""
    rows = UPDATE.rows(0)
    observations = rows["observation"].reshape(-1, UPDATE.inputs)
    arrays = (
        observations[opened],
        rows["action"].reshape(-1)[opened].astype(np.int64),
        rows["reward"].reshape(-1)[opened],
        observations[opened + UPDATE.worlds],
        np.ones(len(opened), np.float32),
    )
    return [torch.from_numpy(array) for array in arrays]


def weights_of(learner: DqnLearner) -> list[Array]:
    """Return the weights of the only agent in torch's layout."""
    state = learner.named(learner.save()[0])
    arrays = []
    for layer in ("read.0", "hidden", "values"):
        arrays += [
            state[f"weights.{layer}.weight"].T.copy(),
            state[f"weights.{layer}.bias"][0].copy(),
        ]
    return arrays


def load(agent: PlainAgent, arrays: Sequence[Array]) -> None:
    """Set the weights of a plain agent and of its target."""
    for module in (agent.network, agent.target):
        with torch.no_grad():
            for weight, array in zip(module.parameters(), arrays, strict=True):
                weight.copy_(torch.from_numpy(np.array(array)))


def assert_same_weights(agent: PlainAgent, expected: Sequence[Array]) -> None:
    for weight, array in zip(agent.network.parameters(), expected, strict=True):
        ours = weight.detach().numpy()
        np.testing.assert_allclose(ours, array, rtol=1e-4, atol=1e-6)


def steps_of(agent: PlainAgent) -> int:
    """Return how many updates an agent has made."""
    (steps,) = {int(state["step"]) for state in agent._adam.state.values()}
    return steps
