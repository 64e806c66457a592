"""Benchmarks run, and compare like with like; how fast they find anything is not tested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
import torch

from rookery.algorithms.base import Agent
from rookery.algorithms.iqn import IqnLearner
from rookery.bench import collect, speedup, update
from rookery.bench.measure import alternate, bench_names
from rookery.bench.plain_iqn import NoisyLinear, PlainAgent, PlainBatch, PlainLoop
from rookery.config.agent import AgentSettings
from rookery.learner.learner import reader_of
from rookery.replay.buffer import ReplayReader
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
def lived() -> Iterator[update.Experience]:
    experience = update.Experience(SIZES, CASE)
    yield experience
    experience.close()


@pytest.fixture
def settings(lived: update.Experience) -> AgentSettings:
    _, config = collect.configured(
        SIZES.worlds,
        CASE.agents,
        **collect.network_settings(CASE.width, CASE.quantiles, SIZES.frames, False),
        batch_size=SIZES.batch,
        discount=0.9,
        reward__scale=0.1,
        gradient__clip=0.01,
        replay__capacity=lived.turns * SIZES.worlds,
        replay__warmup=1,
        updates_per_round=3,
    )
    return config.agent("0")


# The plain loop.


def test_plain_and_stacked_learners_read_the_same_steps_from_the_same_rows(
    lived: update.Experience, settings: AgentSettings
) -> None:
    reader = read(lived, settings)
    agent = PlainAgent(lived.spec, settings, seed=0)
    update.fill(agent.replay, lived.rows[0], lived.turns)
    turns, worlds = reader.opening(reader.usable)

    ours = reader.batch(reader.usable)
    plain = agent.replay.batch(worlds * lived.turns + turns)

    assert len(reader.usable) == SIZES.worlds * SIZES.episodes * SIZES.turns
    flat = ours.seen["view"].reshape(len(turns), -1)
    assert np.array_equal(plain.inputs.numpy(), flat)
    next_flat = ours.next_seen["view"].reshape(len(turns), -1)
    assert np.array_equal(plain.next_inputs.numpy(), next_flat)
    assert np.array_equal(plain.actions.numpy(), ours.actions)
    np.testing.assert_allclose(plain.returns.numpy(), ours.returns, rtol=1e-5)
    np.testing.assert_allclose(plain.discounts.numpy(), ours.discounts, rtol=1e-6)


def test_plain_and_stacked_updates_are_the_same_up_to_rounding(
    lived: update.Experience, settings: AgentSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, agent = read(lived, settings), Agent(0, lived.spec, settings)
    learner = IqnLearner([agent], seed=1)
    learner.load([learner.initial(agent)])
    agent = PlainAgent(lived.spec, settings, seed=0)
    copy(learner.named(learner.save()[0]), agent)
    size = SIZES.batch
    draws = np.random.default_rng(0).random((1, size + 2 * size * CASE.quantiles))
    monkeypatch.setattr(
        learner.stream, "uniform", lambda place, *_: np.tile(draws, (len(place[0]), 1))
    )

    metrics = learner.learn([reader], 1, 0)[0]
    losses = [agent.update(*as_drawn(reader, draws[0], size)) for _ in range(3)]

    assert np.mean(losses) == pytest.approx(metrics["loss"], rel=1e-4)
    assert metrics["gradient_norm"] > settings.gradient.clip  # so that it is clipped
    after = PlainAgent(lived.spec, settings, seed=0)
    copy(learner.named(learner.save()[0]), after)
    for module in ("network", "target"):
        found = getattr(agent, module).state_dict()
        for name, wanted in getattr(after, module).state_dict().items():
            assert torch.allclose(found[name], wanted, rtol=1e-4, atol=1e-6), name


def test_a_noisy_layer_without_scale_is_a_linear_layer() -> None:
    layer, inputs = NoisyLinear(5, 3), torch.rand(2, 5)
    noisy = layer(inputs)
    with torch.no_grad():
        layer.weight_scale.zero_()
        layer.bias_scale.zero_()

    still = layer(inputs)

    assert torch.allclose(still, inputs @ layer.weight.T + layer.bias)
    assert not torch.allclose(noisy, still)


def test_a_plain_loop_remembers_episodes_with_their_closing_rows() -> None:
    loop = collect.plain_loop(COLLECT, noisy=True)

    loop.play(120)

    (agent, _) = loop._agents
    count = COLLECT.turns + 120
    assert agent.replay.count == count
    assert np.flatnonzero(agent.replay._ended[:count]).tolist() == [99]
    assert np.flatnonzero(~agent.replay._active[:count]).tolist() == [100]
    assert agent.replay._ages[99:103].tolist() == [99, 100, 0, 1]


# What is counted.


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
    now = read + embed + join + heads
    backward = read + embed + 2 * (join + heads)
    choosing = read + 2 * 5 * 64 * 3 + 2 * (2 * 5) * 3 * 3 + 2 * (2 * 5) * 3 * (1 + 1)

    found = update.useful_operations(settings, inputs=7, actions=1)

    assert found == now + backward + now + choosing


def test_contenders_take_turns_in_going_first_and_the_median_counts() -> None:
    order: list[str] = []
    rates = iter([1.0, 9.0, 8.0, 2.0, 3.0, 7.0])

    def contender(name: str) -> float:
        order.append(name)
        return next(rates)

    found = alternate({"a": lambda: contender("a"), "b": lambda: contender("b")}, 3)

    assert order == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": 2.0, "b": 8.0}


# Whole benchmarks.


def test_only_what_can_run_is_a_benchmark_and_listing_imports_no_torch() -> None:
    command = (
        "import sys; from rookery.bench.measure import bench_names; "
        "print(*bench_names(), 'torch' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, timeout=60
    )

    assert done.stdout.split() == [*bench_names(), "False"]
    assert bench_names() == ["collect", "game", "speedup", "torn", "update"]


def test_collecting_is_compared_with_a_plain_loop_and_split_into_parts() -> None:
    told: list[str] = []

    report = collect.run(told.append, COLLECT)

    assert set(report.ratios) == {
        f"collect, {exploring}, {worlds} / plain"
        for exploring in ("noisy", "epsilon-greedy")
        for worlds in ("2 worlds", "1 world")
    }
    parts = ("game", "stacking", "acting", "writing and the rest")
    shares = [report.figures[f"noisy, 2 worlds: {part}"]["value"] for part in parts]
    assert sum(shares) == pytest.approx(100.0)
    assert len(told) == 2


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
        assert report.figures[f"even: {name}, share of the limit"]["value"] > 0
    assert report.ratios["demo: pipelined / plain loop"] > 0
    for role, doing in (("actor", "playing"), ("worker 0", "learning")):
        for kind in (doing, "waiting", "protocol calls"):
            assert report.figures[f"demo: {role}: {kind}"]["value"] >= 0
        assert report.figures[f"demo: {role}: memory (PSS)"]["value"] > 10


def test_a_round_of_the_plain_loop_is_as_many_turns_and_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = {"turns": 0, "updates": 0}
    play, learn = PlainLoop.play, PlainAgent.learn

    def played(loop: PlainLoop, turns: int) -> None:
        done["turns"] += turns
        play(loop, turns)

    def learned(agent: PlainAgent) -> float:
        done["updates"] += 1
        return learn(agent)

    monkeypatch.setattr(PlainLoop, "play", played)
    monkeypatch.setattr(PlainAgent, "learn", learned)
    work = speedup._plain(SPEED.cases[1], SPEED, updates=3)
    done["turns"] = 0

    work()

    assert done == {"turns": 6 * 2, "updates": 3 * 2}  # worlds, agents


def read(lived: update.Experience, settings: AgentSettings) -> ReplayReader:
    """Return the first agent's reader, with everything taken in."""
    agent = Agent(0, lived.spec, settings, update.IQN, learns=True)
    reader = reader_of(agent, lived.rows[0], 100)
    reader.take_in(lived.turns)
    return reader


def as_drawn(
    reader: ReplayReader, draws: Array, size: int
) -> tuple[PlainBatch, torch.Tensor, torch.Tensor]:
    """Return the batch and the fractions that a rule makes of its draws."""
    batch = reader.batch(reader.draw(draws[:size]))
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
    """Give a plain agent the weights and the target of a stacked one."""
    for module, prefix in ((agent.network, "weights"), (agent.target, "target")):
        found = {}
        for layer in ("read", "fraction", "join", "values"):
            ours = layer + ".0" if layer == "read" else layer
            found[f"{layer}.weight"] = state[f"{prefix}.{ours}.weight"].T
            found[f"{layer}.bias"] = state[f"{prefix}.{ours}.bias"][0]
        for kind in ("weight", "bias"):
            heads = found.pop(f"values.{kind}")
            found[f"advantages.{kind}"], found[f"value.{kind}"] = heads[:-1], heads[-1:]
        module.load_state_dict(
            {name: torch.from_numpy(array.copy()) for name, array in found.items()}
        )
