"""Benchmarks run, and their contenders do the same work; speed itself is not tested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
import torch

from rookery.algorithms.base import Agent
from rookery.algorithms.iqn import IqnLearner
from rookery.bench import collect, game, plain_treasurehunt, speedup, update
from rookery.bench.measure import Report, alternate, bench_names
from rookery.bench.plain_iqn import NoisyLinear, PlainAgent, PlainBatch, PlainLoop
from rookery.config.agent import AgentSettings
from rookery.learner.learner import reader_of
from rookery.protocol.timing import CALLS, time_protocol
from rookery.replay.buffer import ReplayReader
from rookery.shm.block import Block
from rookery.shm.counters import Counters
from rookery.shm.heartbeat import Heartbeat
from rookery.specs import Array

CASE = update.Case(agents=2, width=10, quantiles=3, updates=2)
SIZES = update.Sizes(
    cases=(CASE,),
    frames=2,
    batch=8,
    worlds=2,
    turns=9,
    episodes=3,
    operations=1000,
    repeats=1,
)
COLLECT = collect.Sizes(
    agents=2,
    width=10,
    quantiles=3,
    frames=2,
    turns=12,
    worlds=2,
    rounds=1,
    single_rounds=1,
    repeats=1,
)


@pytest.fixture
def experience() -> Iterator[update.Experience]:
    experience = update.Experience(SIZES, CASE)
    yield experience
    experience.close()


@pytest.fixture
def settings(experience: update.Experience) -> AgentSettings:
    _, config = collect.configured(
        SIZES.worlds,
        CASE.agents,
        **collect.network_settings(CASE.width, CASE.quantiles, SIZES.frames, False),
        batch_size=SIZES.batch,
        discount=0.9,
        reward__scale=0.1,
        gradient__clip=0.01,
        replay__capacity=experience.turns * SIZES.worlds,
        replay__warmup=1,
        updates_per_round=3,
    )
    return config.agent("0")


# The plain loop.


def test_plain_and_stacked_learners_read_the_same_transitions_from_the_same_rows(
    experience: update.Experience, settings: AgentSettings
) -> None:
    reader = read(experience, settings)
    agent = PlainAgent(experience.spec, settings, seed=0)
    update.fill(agent.replay, experience.rows[0], experience.turns)
    turns, worlds = reader.opening(reader.usable)

    ours = reader.batch(reader.usable)
    plain = agent.replay.batch(worlds * experience.turns + turns)

    assert len(reader.usable) == SIZES.worlds * SIZES.episodes * SIZES.turns
    flat = ours.seen["view"].reshape(len(turns), -1)
    assert np.array_equal(plain.inputs.numpy(), flat)
    next_flat = ours.next_seen["view"].reshape(len(turns), -1)
    assert np.array_equal(plain.next_inputs.numpy(), next_flat)
    assert np.array_equal(plain.actions.numpy(), ours.actions)
    np.testing.assert_allclose(plain.returns.numpy(), ours.returns, rtol=1e-5)
    np.testing.assert_allclose(plain.discounts.numpy(), ours.discounts, rtol=1e-6)


def test_plain_and_stacked_updates_are_the_same_up_to_rounding(
    experience: update.Experience, settings: AgentSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, agent = read(experience, settings), Agent(0, experience.spec, settings)
    learner = IqnLearner([agent], seed=1)
    learner.load([learner.initial(agent)])
    plain = PlainAgent(experience.spec, settings, seed=0)
    copy(learner.named(learner.save()[0]), plain)
    size = SIZES.batch
    draws = np.random.default_rng(0).random((1, size + 2 * size * CASE.quantiles))
    monkeypatch.setattr(
        learner.stream, "uniform", lambda key, *_: np.tile(draws, (len(key[0]), 1))
    )

    metrics = learner.learn([reader], 1, 0)[0]
    losses = [plain.update(*as_drawn(reader, draws[0], size)) for _ in range(3)]

    assert np.mean(losses) == pytest.approx(metrics["loss"], rel=1e-4)
    assert metrics["gradient_norm"] > settings.gradient.clip  # so that it is clipped
    after = PlainAgent(experience.spec, settings, seed=0)
    copy(learner.named(learner.save()[0]), after)
    for module in ("network", "target"):
        weights = getattr(plain, module).state_dict()
        for name, expected in getattr(after, module).state_dict().items():
            assert torch.allclose(weights[name], expected, rtol=1e-4, atol=1e-6), name


def test_a_noisy_layer_without_scale_is_a_linear_layer() -> None:
    layer, inputs = NoisyLinear(5, 3), torch.rand(2, 5)
    noisy = layer(inputs)
    with torch.no_grad():
        layer.weight_scale.zero_()
        layer.bias_scale.zero_()

    noiseless = layer(inputs)

    assert torch.allclose(noiseless, inputs @ layer.weight.T + layer.bias)
    assert not torch.allclose(noisy, noiseless)


def test_a_plain_loop_stores_episodes_with_their_closing_rows() -> None:
    loop = collect.plain_loop(COLLECT, noisy=True)

    loop.play(120)

    (agent, _) = loop._agents
    count = COLLECT.turns + 120
    assert agent.replay.count == count
    assert np.flatnonzero(agent.replay._ended[:count]).tolist() == [99]
    assert np.flatnonzero(~agent.replay._active[:count]).tolist() == [100]
    assert agent.replay._ages[99:103].tolist() == [99, 100, 0, 1]


def test_the_treasurehunt_written_by_hand_has_walls_and_treasures() -> None:
    world = plain_treasurehunt.PlainTreasurehunt(agents=1, worlds=1, seed=0)
    side, up = plain_treasurehunt.SIDE, np.zeros((1, 1), int)
    rewards = [float(world.act(up)[0, 0]) for _ in range(side)]

    observations = world.observe()

    assert observations.shape == (1, 1, 5, 25)
    assert rewards[-1] == -1  # at the wall, since nothing is spawned without observing
    assert observations[0, 0, 0, 5:10].all()  # a row of wall above the agent
    assert set(rewards) == {0, -1}


# What is counted.


def test_protocol_calls_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, names in CALLS:
        for name in names:  # put back after the test
            monkeypatch.setattr(owner, name, getattr(owner, name))
    heartbeat, block = Heartbeat(), Block.create(Counters.layout(["commit"]))
    counters = Counters(block)
    counters.store("commit", 1)
    assert heartbeat.nanoseconds["protocol"] == 0

    time_protocol(heartbeat)
    for value in range(1000):
        counters.store("commit", value)

    assert heartbeat.nanoseconds["protocol"] > 0
    block.close()


def test_useful_operations_are_those_of_a_network_counted_by_hand() -> None:
    settings = AgentSettings.model_validate(
        {
            "batch_size": 2,
            "network": {"width": 3, "quantiles": 4},
            "iqn": {"acting_quantiles": 5, "dueling": True, "double": True},
        }
    )
    read, embed = 2 * 2 * 7 * 3, 2 * (2 * 4) * 64 * 3
    join, heads = 2 * (2 * 4) * 3 * 3, 2 * (2 * 4) * 3 * (1 + 1)
    forward = read + embed + join + heads
    backward = read + embed + 2 * (join + heads)
    selection = read + 2 * 5 * 64 * 3 + 2 * (2 * 5) * 3 * 3 + 2 * (2 * 5) * 3 * (1 + 1)

    operations = update.useful_operations(settings, inputs=7, actions=1)

    assert operations == forward + backward + forward + selection


def test_contenders_alternate_and_the_median_counts() -> None:
    order: list[str] = []
    rates = iter([1.0, 9.0, 8.0, 2.0, 3.0, 7.0])

    def contender(name: str) -> float:
        order.append(name)
        return next(rates)

    medians = alternate({"a": lambda: contender("a"), "b": lambda: contender("b")}, 3)

    assert order == ["a", "b", "b", "a", "a", "b"]
    assert medians == {"a": 2.0, "b": 8.0}


# Whole benchmarks.


def test_games_are_compared_with_one_written_by_hand_and_with_bare_ones() -> None:
    report = Report()

    game._measure_engine(report, worlds=2, turns=5)
    game._measure_foreign(report, game.FOREIGN[0], worlds=1, turns=5)

    assert set(report.ratios) == {
        "treasurehunt, 2 worlds: engine / by hand",
        f"{game.FOREIGN[0]}: rookery / bare",
    }
    assert all(ratio > 0 for ratio in report.ratios.values())
    shares = [report.metrics[f"treasurehunt, 2 worlds: {x}"]["value"] for x in game.PARTS]
    assert sum(shares) == pytest.approx(100.0)


def test_benchmarks_are_the_modules_with_run_and_listing_them_imports_no_torch() -> None:
    command = (
        "import sys; from rookery.bench.measure import bench_names; "
        "print(*bench_names(), 'torch' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, timeout=60
    )

    assert done.stdout.split() == [*bench_names(), "False"]
    assert bench_names() == ["collect", "game", "peers", "speedup", "update"]


def test_collecting_is_compared_with_a_plain_loop_and_split_into_parts() -> None:
    progress: list[str] = []

    report = collect.run(progress.append, COLLECT)

    assert set(report.ratios) == {
        f"collect, {exploring}, {worlds} / plain"
        for exploring in ("noisy", "epsilon-greedy")
        for worlds in ("2 worlds", "1 world")
    }
    parts = ("game", "stacking", "acting", "writing and the rest")
    shares = [report.metrics[f"noisy, 2 worlds: {part}"]["value"] for part in parts]
    assert sum(shares) == pytest.approx(100.0)
    assert len(progress) == 2


def test_updating_is_compared_with_a_plain_loop_and_with_matrix_products() -> None:
    report = update.run(lambda _: None, SIZES)

    name = "2 agents, 10 wide, 3 quantiles"
    assert set(report.ratios) == {
        f"update, {name}, {exploring}: {ratio}"
        for exploring in ("noisy", "epsilon-greedy")
        for ratio in (
            "ours / plain",
            "ours / matrix-product rate",
            "plain / matrix-product rate",
        )
    }
    assert all(ratio > 0 for ratio in report.ratios.values())
    assert report.to_json()["figures"][f"{name}, noisy: product 24 × 10 × 10"]["value"] > 0


SPEED = speedup.Sizes(
    (
        speedup.Case("even", 1, 2, 16, 2, 2, share=1.0),
        speedup.Case("demo", 2, 2, 16, 2, 2, share=None, plain=True),
    ),
    turns=6,
    seconds=0.1,
    repeats=1,
)


@pytest.mark.shows("E3")
@pytest.mark.timeout(300)
def test_processes_are_compared_with_one_and_with_a_plain_loop_at_equal_work() -> None:
    report = speedup.run(lambda _: None, SPEED)

    for name in ("sync", "pipelined", "async"):
        assert report.ratios[f"demo: {name}, 2 workers / workers=0"] > 0
        assert report.metrics[f"even: {name}, share of the limit"]["value"] > 0
    assert report.ratios["demo: pipelined / plain loop"] > 0
    for role, work in (("actor", "playing"), ("worker 0", "learning")):
        for kind in (work, "waiting", "protocol calls"):
            assert report.metrics[f"demo: {role}: {kind}"]["value"] >= 0
        assert report.metrics[f"demo: {role}: memory (PSS)"]["value"] > 10


def test_a_round_of_the_plain_loop_has_as_many_turns_and_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = {"turns": 0, "updates": 0}
    play, learn = PlainLoop.play, PlainAgent.learn

    def count_turns(loop: PlainLoop, turns: int) -> None:
        done["turns"] += turns
        play(loop, turns)

    def count_updates(agent: PlainAgent) -> float:
        done["updates"] += 1
        return learn(agent)

    monkeypatch.setattr(PlainLoop, "play", count_turns)
    monkeypatch.setattr(PlainAgent, "learn", count_updates)
    work = speedup._plain(SPEED.cases[1], SPEED, updates=3)
    done["turns"] = 0

    work()

    assert done == {"turns": 6 * 2, "updates": 3 * 2}  # worlds, agents


def read(experience: update.Experience, settings: AgentSettings) -> ReplayReader:
    """Return a reader of the first agent that has read all rows."""
    agent = Agent(0, experience.spec, settings, update.IQN, learns=True)
    reader = reader_of(agent, experience.rows[0], 100)
    reader.advance(experience.turns)
    return reader


def as_drawn(
    reader: ReplayReader, draws: Array, size: int
) -> tuple[PlainBatch, torch.Tensor, torch.Tensor]:
    """Return the batch and the fractions that a learner makes of its draws."""
    batch = reader.batch(reader.sample(draws[:size]))
    plain = PlainBatch(
        torch.from_numpy(batch.seen["view"].reshape(size, -1)).float(),
        torch.from_numpy(batch.next_seen["view"].reshape(size, -1)).float(),
        torch.from_numpy(batch.actions.astype(np.int64)),
        torch.from_numpy(batch.returns),
        torch.from_numpy(batch.discounts),
    )
    fractions = torch.from_numpy(draws[size:].astype(np.float32)).view(2, size, -1)
    return plain, fractions[0], fractions[1]


def copy(state: Mapping[str, Array], agent: PlainAgent) -> None:
    """Copy the weights and the target of a stacked agent into a plain one."""
    for module, prefix in ((agent.network, "weights"), (agent.target, "target")):
        arrays = {}
        for layer in ("read", "fraction", "join", "values"):
            ours = layer + ".0" if layer == "read" else layer
            arrays[f"{layer}.weight"] = state[f"{prefix}.{ours}.weight"].T
            arrays[f"{layer}.bias"] = state[f"{prefix}.{ours}.bias"][0]
        for kind in ("weight", "bias"):
            heads = arrays.pop(f"values.{kind}")
            arrays[f"advantages.{kind}"], arrays[f"value.{kind}"] = heads[:-1], heads[-1:]
        module.load_state_dict(
            {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        )
