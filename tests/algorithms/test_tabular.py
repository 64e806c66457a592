"""Tabular Q-learning: exact values, exact keys, and what it refuses."""

from __future__ import annotations

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


def tabular(number=0, spec=None, **settings):
    return agent_of(number, spec, tabular={"entries": 200, "rate": 0.5}, **settings)


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
def test_updates_are_those_of_a_table_kept_by_hand(masked):
    agent = tabular(2, spec_of(2, masked=masked), updates_per_round=2, discount=0.8)
    trainer = GroupTrainer(TABULAR, [agent])
    trainer.experiences[0].play_round()
    reader, table = trainer.experiences[0].reader, {}
    for update in range(2):
        drawn = Stream(SEED, Purpose.LEARNER).uniform((2, 1, update), 0, 8)[0]
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
            mine = table.setdefault(now, [0.0] * 5)
            mine[batch.actions[i]] += 0.5 * (wanted - mine[batch.actions[i]])

    (metrics,) = trainer.learn()

    named = trainer.learner.named_weights(agent, trainer.states[0]["weights"])
    assert metrics["table_lines"] == len(table)
    seen = [line.tobytes() for line in named["seen"][: len(table)]]
    assert seen == [b"".join(key) for key in table]
    assert named["values"][: len(table)].tolist() == list(table.values())
    assert trainer.states[0]["counters"].tolist() == [2, 0]


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


def test_a_table_is_the_same_after_naming_and_back():
    trainer = GroupTrainer(TABULAR, [tabular()])
    trainer.train(rounds=3)
    lines = trainer.states[0]["weights"]

    named = trainer.learner.named_weights(tabular(), lines)

    assert 0 < named["taken"].sum() < len(lines)
    assert trainer.learner.flat_weights(tabular(), named).tobytes() == lines.tobytes()


def test_nan_rewards_stop_the_agent_with_its_last_good_table():
    trainer = GroupTrainer(TABULAR, [tabular()])
    trainer.train()
    before = trainer.states[0]["weights"].tobytes()

    (metrics,) = trainer.train(nan_rewards=[0])

    assert metrics["stopped"] == 1.0
    assert trainer.states[0]["weights"].tobytes() == before


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
