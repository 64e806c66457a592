"""Tabular Q-learning: exact values, exact keys, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rookery
from rookery.algorithms.base import PolicyInput
from rookery.algorithms.tabular import TABULAR, QTable, row_type
from rookery.errors import ConfigError
from rookery.rng import Purpose, Stream
from rookery.runs.configure import configure
from rookery.specs import Part
from tests.algorithms.conftest import SEED, GroupTrainer, agent_of, same_bits, spec_of
from tests.paths import GAME_FILES

CORRIDORS = f"{GAME_FILES / 'corridors.py'}:Corridors"
FEW = {"view": Part((2,), np.dtype(np.uint8))}
DISCOUNT = 0.9


def tabular(number=0, spec=None, *, hysteresis=1.0, leniency=0.0, cooling=0.9, **settings):
    table = {"entries": 200, "rate": 0.5, "hysteresis": hysteresis}
    table |= {"leniency": leniency, "cooling": cooling}
    return agent_of(number, spec, tabular=table, **settings)


# The optimum, exactly.


def model_of(game):
    """Return what each action of agent 0 leads to, from every reachable observation."""

    def look():
        (phase,) = game.begin_turn()
        return game.observe(phase).parts[phase.index(0)]["view"].tobytes()

    start, model = game.snapshot(), {}
    ahead = [(look(), start)]
    while ahead:
        seen, snapshot = ahead.pop()
        if seen in model:
            continue
        model[seen] = []
        for action in range(game.agents[0].num_actions):
            game.restore(snapshot)
            (phase,) = game.begin_turn()
            game.observe(phase)
            game.act(phase, np.full((1, len(phase)), action))
            outcome = game.end_turn()
            after, over = game.snapshot(), bool(outcome.terminated[0, 0])
            follows = look()
            model[seen].append((float(outcome.rewards[0, 0]), follows, over))
            if not over:
                ahead.append((follows, after))
    return model


def value_iteration(model, discount):
    """Return the best values of all observations and actions, to the last bit."""
    values = {seen: [0.0] * len(actions) for seen, actions in model.items()}
    while True:
        again = {
            seen: [
                reward + (0.0 if over else discount * max(values[follows]))
                for reward, follows, over in actions
            ]
            for seen, actions in model.items()
        }
        if again == values:
            return values
        values = again


@pytest.mark.learning
def test_it_reaches_the_exact_optimum(tmp_path):
    run = rookery.train(
        CORRIDORS,
        run=tmp_path / "run",
        workers=0,
        rounds=10,
        turns_per_round=30,
        algorithm="tabular",
        tabular={"rate": 1.0, "entries": 20},
        frames=1,
        discount=DISCOUNT,
        epsilon={"end": 1.0},
        replay={"warmup": 64},
        game={"agents": 1, "turns": 30},
    )
    entry, config = configure(CORRIDORS, settings={"game.agents": 1, "game.turns": 30})
    model = {}
    for world in range(4):  # a world may start in either corridor
        model |= model_of(entry.build(config.game.settings, 1, 0, world))

    best = value_iteration(model, float(np.float32(DISCOUNT)))

    for player in run.players().values():
        taken = player.named["taken"]
        table = dict(
            zip(
                (line.tobytes() for line in player.named["seen"][taken]),
                player.named["values"][taken].tolist(),
                strict=True,
            )
        )
        assert len(best) == 8
        assert table == best
    match = rookery.play(
        CORRIDORS, run.players(), episodes=4, game={"agents": 1, "turns": 30}
    )
    assert np.allclose(match.returns, 0.6, atol=1e-6)


# Updates.


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("hysteresis", [1.0, 0.2, 0.0])
@pytest.mark.parametrize("leniency", [0.0, 3.0], ids=["strict", "lenient"])
def test_updates_are_those_of_a_table_kept_by_hand(masked, hysteresis, leniency):
    options = {"hysteresis": hysteresis, "leniency": leniency, "cooling": 0.7}
    agent = tabular(
        2, spec_of(2, masked=masked), updates_per_round=2, discount=0.8, **options
    )
    trainer = GroupTrainer(TABULAR, [agent])
    trainer.experiences[0].play_round()
    reader, table, heat = trainer.experiences[0].reader, {}, {}
    lowered = forgiven = 0
    for update in range(2):
        stream = Stream(SEED, Purpose.LEARNER)
        drawn, luck = (stream.uniform((2, 1, update), k, 8)[0] for k in (0, 1))
        batch = reader.batch(reader.sample(drawn))
        for i in range(8):
            now, after = (
                (seen["view"][i].tobytes(), seen["self"][i].tobytes())
                for seen in (batch.seen, batch.next_seen)
            )
            legal = range(5) if not masked else np.flatnonzero(batch.next_legal[i])
            values = table.get(after, [0.0] * 5)
            best = max(values[k] for k in legal)
            wanted = float(batch.returns[i]) + float(batch.discounts[i]) * best
            mine, action = table.setdefault(now, [0.0] * 5), batch.actions[i]
            warm = heat.setdefault(now, [leniency] * 5)
            error = wanted - mine[action]
            if error >= 0:
                mine[action] += 0.5 * error
            elif leniency and luck[i] < math.exp(-1 / warm[action]):
                forgiven += 1
            else:
                mine[action] += 0.5 * hysteresis * error
                lowered += 1
            if batch.discounts[i]:
                mean = sum(heat.get(after, [leniency] * 5)) / 5
                warm[action] = 0.9 * warm[action] + 0.1 * mean
            warm[action] *= 0.7

    (metrics,) = trainer.learn()

    named = trainer.learner.named_weights(agent, trainer.states[0]["weights"])
    assert metrics["table_lines"] == len(table)
    seen = [line.tobytes() for line in named["seen"][: len(table)]]
    assert seen == [b"".join(key) for key in table]
    assert named["values"][: len(table)].tolist() == list(table.values())
    assert trainer.states[0]["counters"].tolist() == [2, 0]
    assert lowered
    assert bool(forgiven) == bool(leniency)
    if leniency:
        temperatures = trainer.states[0]["temperatures"]
        assert temperatures[: len(heat)] == pytest.approx(np.array(list(heat.values())))
        assert (temperatures[len(heat) :] == leniency).all()


def test_returns_are_of_one_step_whatever_n_step_is():
    assert TABULAR.learner.n_step(tabular(n_step=5).settings) == 1


def test_learning_again_gives_the_same_bits_and_another_seed_does_not():
    trainers = [GroupTrainer(TABULAR, [tabular()], seed=seed) for seed in (1, 1, 2)]
    for trainer in trainers:
        trainer.train(rounds=3)

    assert same_bits(trainers[0].states[0], trainers[1].states[0])
    assert not same_bits(trainers[0].states[0], trainers[2].states[0])


def test_a_state_is_the_same_after_naming_and_back():
    trainer = GroupTrainer(TABULAR, [tabular()])
    trainer.train(rounds=3)
    (state,) = trainer.states

    named = trainer.learner.named(state)

    assert same_bits(trainer.learner.unnamed(named), state)


def test_a_lenient_agent_goes_on_with_the_temperatures_it_had():
    whole, parts = (GroupTrainer(TABULAR, [tabular(leniency=3.0)]) for _ in range(2))
    whole.train(rounds=3)
    parts.train(rounds=2)
    named = parts.learner.named(parts.states[0])

    parts.learner = TABULAR.learner(parts.learner.agents, SEED)
    parts.learner.load([parts.learner.unnamed(named)])
    parts.train()

    assert same_bits(whole.states[0], parts.states[0])
    assert whole.states[0]["temperatures"].min() < 3.0


def test_only_a_lenient_agent_has_temperatures():
    strict, lenient = (
        TABULAR.learner.shapes(tabular(leniency=leniency), 1, 1) for leniency in (0.0, 1.0)
    )

    assert lenient.keys() - strict.keys() == {"temperatures"}


def test_a_table_is_the_same_after_naming_and_back():
    trainer = GroupTrainer(TABULAR, [tabular()])
    trainer.train(rounds=3)
    lines = trainer.states[0]["weights"]

    named = trainer.learner.named_weights(tabular(), lines)

    assert 0 < named["taken"].sum() < len(lines)
    assert trainer.learner.flat_weights(tabular(), named).tobytes() == lines.tobytes()


def test_nan_rewards_stop_the_agent_with_its_last_good_table():
    trainer = GroupTrainer(TABULAR, [tabular(leniency=3.0)])
    trainer.train()
    before = trainer.states[0]

    (metrics,) = trainer.train(nan_rewards=[0])

    assert metrics["stopped"] == 1.0
    for name in ("weights", "temperatures"):
        assert trainer.states[0][name].tobytes() == before[name].tobytes()


# Refusals.


def test_more_observations_than_the_table_holds_are_refused():
    agent = agent_of(4, tabular={"entries": 5})

    with pytest.raises(ConfigError) as refusal:
        GroupTrainer(TABULAR, [agent]).train(rounds=3)

    assert str(refusal.value) == (
        "agent '4' has observed more than 5 different observations: a table is for "
        "small games; raise tabular.entries, lower frames, or choose algorithm=dqn."
    )


def test_prioritised_replay_is_refused():
    agent = tabular(replay={"kind": "prioritised"})

    with pytest.raises(
        ConfigError, match=r"replay\.kind is prioritised, .* set replay\.kind=uniform"
    ):
        TABULAR.learner([agent], SEED)


def test_a_table_of_another_game_is_refused():
    named = {"seen": np.zeros((3, 7), np.uint8), "values": np.zeros((3, 5))}

    with pytest.raises(ConfigError, match=r"'taken' of a table is .* use the game"):
        TABULAR.learner.flat_weights(tabular(), named)


# Acting.


def test_it_acts_by_its_table_and_by_zeros_for_unknown_observations():
    agent = tabular(spec=spec_of(parts=FEW, actions=3), frames=1)
    table = QTable(agent, np.zeros(4, row_type(agent)))
    table.values[table.index(bytes([1, 2]))] = [0.0, 3.0, 1.0]
    policy = TABULAR.policy([agent], SEED)
    policy.begin_round([table.rows], 1)
    seen = {"view": np.array([[[1, 2]], [[2, 1]]], np.uint8)}

    output = policy.act(PolicyInput([seen], [None], np.zeros((1, 2, 2)), np.zeros(1)))
    legal = np.array([[True, False, True]] * 2)
    masked = policy.act(PolicyInput([seen], [legal], np.zeros((1, 2, 2)), np.zeros(1)))

    assert output.actions.tolist() == [[1, 0]]
    assert output.values.tolist() == [[3.0, 0.0]]
    assert masked.actions.tolist() == [[2, 0]]


def test_observations_that_differ_in_one_bit_have_different_rows():
    agent = tabular(spec=spec_of(parts=FEW), frames=1)
    table = QTable(agent, np.zeros(4, row_type(agent)))
    keys = table.keys({"view": np.array([[[0, 1]], [[1, 0]], [[0, 1]]], np.uint8)})

    lines = [table.index(key) for key in keys]

    assert lines == [0, 1, 0]
