"""Users' own networks and algorithms: what they are given, and what is said of them."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from rookery import api as library
from rookery.algorithms.agents import groups_of
from rookery.algorithms.base import Agent, PolicyInput, PolicyOutput
from rookery.algorithms.common.choosing import choose_by_chances, choose_by_values
from rookery.algorithms.registry import find_algorithm
from rookery.cli import app as cli
from rookery.errors import AlgorithmError, ConfigError
from rookery.runs.run import Run
from tests.algorithms.conftest import SEED, WORLDS, Crew, agent_of, same_bits, spec_of

# What users bring. `own("Net")` finds these by import path, as it would a file.


class Net(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        width = settings.network.width
        self.layers = nn.Sequential(
            nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, spec.num_actions)
        )

    def forward(self, inputs):
        return self.layers(torch.cat([part.flatten(1) for part in inputs.values()], 1))


class ShakyNet(Net):
    """With buffers, chance, a parameter nobody uses, and one that stays as it is."""

    def __init__(self, spec, settings):
        super().__init__(spec, settings)
        self.normal = nn.BatchNorm1d(spec.num_actions)
        self.dropout = nn.Dropout(0.5)
        self.unused = nn.Parameter(torch.ones(3))
        self.fixed = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, inputs):
        return self.dropout(self.normal(super().forward(inputs))) * self.fixed


class LinearQ:
    def __init__(self, spec, settings):
        self.rate = settings.learning_rate
        inputs = sum(np.prod(part.shape) for part in spec.parts.values())
        self.table = np.zeros((settings.frames * inputs + 1, spec.num_actions))

    def values(self, seen):
        return flat(seen) @ self.table

    def update(self, batch):
        targets = batch.returns + batch.discounts * self.values(batch.next_seen).max(1)
        inputs, rows = flat(batch.seen), np.arange(len(batch.actions))
        errors = np.zeros((len(rows), self.table.shape[1]))
        errors[rows, batch.actions] = targets - (inputs @ self.table)[rows, batch.actions]
        self.table += self.rate * inputs.T @ errors
        return {"loss": np.square(errors).mean()}

    def state(self):
        return {"table": self.table}

    def load(self, state):
        self.table = state["table"]


def flat(seen):
    parts = [part.reshape(len(part), -1) for part in seen.values()]
    return np.concatenate([*parts, np.ones((len(parts[0]), 1))], axis=1)


class Softmax(LinearQ):
    """Draws by probabilities instead."""

    values = None

    def probabilities(self, seen):
        wishes = np.exp(2 * (flat(seen) @ self.table))
        return wishes / wishes.sum(axis=1, keepdims=True)

    def update(self, batch):
        errors = batch.returns - batch.returns.mean()
        for row, action, error in zip(flat(batch.seen), batch.actions, errors, strict=True):
            self.table[:, action] += self.rate * error * row


class Drawing(LinearQ):
    """Draws from everywhere, in its constructor and when it learns."""

    def __init__(self, spec, settings):
        super().__init__(spec, settings)
        self.drawn = self.draw()

    def draw(self):
        return np.array([random.random(), np.random.normal(), float(torch.rand(()))])

    def update(self, batch):
        self.drawn = self.draw()

    def state(self):
        return {"drawn": self.drawn}

    def load(self, state):
        self.drawn = state["drawn"]


class Forgetful(LinearQ):
    """Counts its updates where `state` does not look."""

    def __init__(self, spec, settings):
        super().__init__(spec, settings)
        self.calls, self.most, self.loads = 0, 0, 0

    def update(self, batch):
        self.calls += 1
        self.most = max(self.most, self.calls)

    def state(self):
        kinds = {
            "half": np.float16(0.1),
            "big": np.array([2**60 + 1]),
            "odd": np.array([True, False, True]),
            "fine": np.array([[1 / 3], [-0.0]]),
        }
        return {"most": self.most, **kinds}

    def load(self, state):
        self.most = int(state["most"])


def own(name: str):
    return find_algorithm(f"{__name__}:{name}")


def members_of(name: str, count: int) -> list[Agent]:
    return [replace(agent_of(i), algorithm=own(name), learns=True) for i in range(count)]


# A network is trained by a double DQN.


def test_a_network_is_trained_as_by_a_plain_double_dqn() -> None:
    agent = agent_of(updates_per_round=1, target={"every": 2, "rate": 1.0})
    crew = Crew(own("Net"), [agent])
    weights, target = (module(crew, agent) for _ in "ab")
    adam = torch.optim.Adam(weights.parameters(), agent.settings.learning_rate)

    for update in range(4):
        crew.train()
        batch = drawn(crew, update=0)
        next_seen, rows = tensors(batch.next_seen, agent), torch.arange(8)
        best = weights(next_seen).argmax(1)
        after = target(next_seen)[rows, best].detach()
        aims = torch.tensor(batch.returns) + torch.tensor(batch.discounts) * after
        found = weights(tensors(batch.seen, agent))[rows, torch.tensor(batch.actions)]
        adam.zero_grad()
        nn.functional.huber_loss(found, aims).backward()
        adam.step()
        if update % 2:
            target.load_state_dict(weights.state_dict())

    named = crew.learner.named_weights(agent, crew.states[0]["weights"])
    for name, parameter in weights.named_parameters():
        np.testing.assert_allclose(named[name], parameter.detach(), rtol=2e-3, atol=1e-5)


def module(crew: Crew, agent) -> nn.Module:
    """Return the network with the weights that a crew has now."""
    found = Net(agent.spec, agent.settings)
    zeros = {n: np.zeros((1, 2, *p.shape), np.float32) for n, p in agent.spec.parts.items()}
    found(tensors(zeros, agent))
    named = crew.learner.named_weights(agent, crew.states[0]["weights"])
    found.load_state_dict({name: torch.tensor(array) for name, array in named.items()})
    return found


def tensors(seen, agent):
    parts = agent.spec.parts
    return {n: torch.tensor(a).float() * parts[n].scale for n, a in seen.items()}


def drawn(crew: Crew, update: int):
    """Return the batch that was drawn for an update of the newest round."""
    reader, agent = crew.lives[0].reader, crew.learner.agents[0]
    numbers = crew.learner._stream.uniform(
        (agent.number, crew.round, update), 0, agent.settings.batch_size
    )
    return reader.batch(reader.draw(numbers[0]))


def test_buffers_are_weights_and_learn_while_fixed_and_unused_parameters_stay() -> None:
    crew = Crew(own("ShakyNet"), [agent_of()])
    before = crew.learner.named_weights(crew.learner.agents[0], crew.states[0]["weights"])

    crew.train(2)

    after = crew.learner.named_weights(crew.learner.agents[0], crew.states[0]["weights"])
    assert (after["normal.running_mean"] != before["normal.running_mean"]).all()
    assert after["normal.num_batches_tracked"] == 6
    assert (after["layers.2.weight"] != before["layers.2.weight"]).any()
    np.testing.assert_array_equal(after["fixed"], 1)
    np.testing.assert_array_equal(after["unused"], 1)


@pytest.mark.parametrize("name", ["ShakyNet", "LinearQ", "Drawing"])
@pytest.mark.shows("A1")
def test_the_same_seed_gives_the_same_bits_whatever_was_drawn_before(name: str) -> None:
    one, other, another = (Crew(own(name), [agent_of()], seed=s) for s in (1, 1, 2))

    one.train(3)
    torch.rand(5), np.random.normal(size=3), random.random()
    other.train(3)
    another.train(3)

    assert same_bits(one.states[0], other.states[0])
    assert not same_bits(one.states[0], another.states[0])


@pytest.mark.parametrize("name", ["ShakyNet", "Forgetful"])
def test_a_state_by_name_comes_back_to_the_last_bit(name: str) -> None:
    crew = Crew(own(name), [agent_of()])
    crew.train(2)
    (state,) = crew.states

    named = {key: np.array(array) for key, array in crew.learner.named(state).items()}

    assert same_bits(crew.learner.unnamed(named), state)


@pytest.mark.parametrize("name", ["Net", "LinearQ", "Softmax"])
def test_learning_goes_on_where_actions_are_masked(name: str) -> None:
    crew = Crew(own(name), [agent_of(spec=spec_of(masked=True))])

    (metrics,) = crew.train(2)

    assert metrics["updates"] == 3
    assert "stopped" not in metrics


def test_a_network_can_learn_from_a_prioritised_replay() -> None:
    crew = Crew(own("Net"), [agent_of(replay={"kind": "prioritised"})])

    (metrics,) = crew.train(2)

    assert metrics["updates"] == 3
    assert np.ptp(crew.states[0]["priorities"]) > 0


def test_a_network_that_is_stopped_by_nan_keeps_its_last_good_state() -> None:
    crew = Crew(own("ShakyNet"), [agent_of()])
    crew.train(2)

    (metrics,) = crew.train(1, unhappy=[0])

    (state,) = crew.states
    assert metrics["stopped"] == 1
    assert np.isfinite(state["weights"]).all()
    batches = crew.learner.named(state)["weights.normal.num_batches_tracked"]
    assert batches == state["counters"][0]


def test_users_own_networks_are_never_stacked() -> None:
    assert [len(group) for group in groups_of(members_of("Net", 3))] == [1, 1, 1]


# An algorithm is what its state says, and nothing else.


def test_random_numbers_of_users_code_are_keyed_and_leave_others_alone() -> None:
    learner = own("Drawing").learner([agent_of(0)], SEED)
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    expected = [float(torch.rand(())), np.random.random(), random.random()]
    torch.manual_seed(5), np.random.seed(5), random.seed(5)

    first, again, neighbour = (learner.initial(agent_of(i))["weights"] for i in (0, 0, 1))

    assert [float(torch.rand(())), np.random.random(), random.random()] == expected
    assert first.tobytes() == again.tobytes()
    assert not set(first.view(np.float64)) & set(neighbour.view(np.float64))


def test_only_what_the_state_holds_survives_a_round() -> None:
    crew = Crew(own("Forgetful"), [agent_of(updates_per_round=3)])

    crew.train(4)

    state = crew.learner.named(crew.states[0])
    assert state["weights.most"] == 3
    assert state["weights.big"] == 2**60 + 1
    assert state["counters"].tolist() == [12, 0]


def test_an_algorithm_waits_until_it_has_seen_enough() -> None:
    crew = Crew(own("LinearQ"), [agent_of(replay={"warmup": 40, "capacity": 90})])

    (early,) = crew.train(1)
    (late,) = crew.train(2)

    assert early == {"updates": 0, "usable_steps": early["usable_steps"]}
    assert late["updates"] == 3
    assert late["loss"] > 0


def test_an_algorithm_that_is_stopped_by_nan_keeps_its_last_good_state() -> None:
    crew = Crew(own("LinearQ"), [agent_of()])
    crew.train(2)
    (good,) = crew.states

    (metrics,) = crew.train(1, unhappy=[0])
    (after,) = crew.train(1)

    assert metrics["stopped"] == after["stopped"] == 1
    assert metrics["updates"] == 0
    assert same_bits(crew.states[0] | {"counters": good["counters"]}, good)


# Choosing.


def moment_of(legal, exploration: float, draws) -> PolicyInput:
    seen = {"self": np.zeros((len(draws), 2, 3), np.float32)}
    return PolicyInput([seen], [legal], np.array([draws], float), np.array([exploration]))


def test_values_choose_the_best_legal_action_or_any_legal_one() -> None:
    values = np.array([[1, 9, 3], [1, 9, 3], [7, 9, 3]], np.float32)
    legal = np.array([[1, 0, 1], [1, 0, 1], [1, 1, 1]], bool)

    chosen = choose_by_values(values, moment_of(legal, 0.5, [[0.9, 0], [0.1, 0], [0.9, 0]]))

    assert chosen.actions.tolist() == [[2, 0, 1]]
    np.testing.assert_allclose(chosen.probabilities, [[0.75, 0.25, 2 / 3]], rtol=1e-6)
    assert chosen.values.tolist() == [[3, 1, 9]]
    two, three = entropy(0.75, 0.25), entropy(2 / 3, 1 / 6, 1 / 6)
    np.testing.assert_allclose(chosen.entropies, [[two, two, three]], rtol=1e-6)


def test_whoever_has_probabilities_draws_by_them_however_long_it_has_learned() -> None:
    settings = agent_of(epsilon={"end": 0.0, "steps": 10}).settings

    assert own("Softmax").learner.exploration(settings, 10**6) == 1.0
    assert own("LinearQ").learner.exploration(settings, 10**6) == 0.0


def test_chances_of_illegal_actions_are_shared_out_among_the_others() -> None:
    probabilities = np.array([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3], [0, 1, 0]], np.float32)
    legal = np.array([[1, 0, 1], [1, 1, 1], [1, 0, 1]], bool)

    chosen = choose_by_chances(
        probabilities, moment_of(legal, 0.1, [[0.39, 0], [0.8, 0], [0.6, 0]])
    )

    assert chosen.actions.tolist() == [[0, 2, 2]]
    np.testing.assert_allclose(chosen.probabilities, [[0.4, 0.3, 0.5]], rtol=1e-6)
    expected = [entropy(0.4, 0.6), entropy(0.2, 0.5, 0.3), entropy(0.5, 0.5)]
    np.testing.assert_allclose(chosen.entropies, [expected], rtol=1e-6)


@pytest.mark.parametrize("choose", [choose_by_values, choose_by_chances])
def test_where_nothing_is_legal_nobody_acts_and_nothing_breaks(choose) -> None:
    nothing = np.zeros((1, 3), bool)

    chosen = choose(np.ones((1, 3), np.float32), moment_of(nothing, 0.5, [[0.9, 0.9]]))

    assert 0 <= chosen.actions[0, 0] < 3
    assert np.isfinite(chosen.entropies).all()


def test_without_exploration_the_likeliest_action_is_chosen() -> None:
    probabilities = np.array([[0.2, 0.5, 0.3]], np.float32)

    chosen = choose_by_chances(probabilities, moment_of(None, 0.0, [[0.99, 0]]))

    assert chosen.actions.tolist() == [[1]]


def entropy(*probabilities: float) -> float:
    return -sum(probability * np.log(probability) for probability in probabilities)


@pytest.mark.parametrize("name", ["Net", "LinearQ", "Softmax"])
def test_the_same_moment_gets_the_same_choice(name: str) -> None:
    first, second = (act(name) for _ in "ab")

    assert same_bits(vars(first), vars(second))
    assert first.actions.shape == (1, WORLDS)


def act(name: str) -> PolicyOutput:
    agent, algorithm = agent_of(), own(name)
    policy = algorithm.policy([agent], SEED)
    policy.begin_round([algorithm.learner([agent], SEED).initial(agent)["weights"]], 1)
    parts = agent.spec.parts.items()
    seen = {n: np.ones((WORLDS, 2, *p.shape), p.dtype) for n, p in parts}
    draws = np.linspace(0, 0.9, WORLDS * 2).reshape(1, WORLDS, 2)
    return policy.act(PolicyInput([seen], [None], draws, np.array([0.3])))


# What is said when it goes wrong.


class Unmade(Net):
    def __init__(self, spec, settings):
        raise KeyError("no such\nthing")


class Blind(Net):
    def forward(self, inputs):
        return inputs["eyes"]


class Narrow(Net):
    def forward(self, inputs):
        return super().forward(inputs)[:, :2]


class Talker(Net):
    def forward(self, inputs):
        return "up"


class Empty(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.actions = spec.num_actions

    def forward(self, inputs):
        return torch.zeros(len(inputs["self"]), self.actions)


class Cut(Net):
    def forward(self, inputs):
        return super().forward(inputs).detach()


class Stumbles(LinearQ):
    def update(self, batch):
        return {"loss": 1 // len(batch.rewards)}


class Poet(LinearQ):
    def update(self, batch):
        return {"loss": "low"}


class Grows(LinearQ):
    def update(self, batch):
        self.table = self.table[1:]


class Stateless(LinearQ):
    def state(self):
        return {}


class Objects(LinearQ):
    def state(self):
        return {"self": self}


class Unloaded(LinearQ):
    def load(self, state):
        self.table = state["tables"]


class Flat(LinearQ):
    def values(self, seen):
        return flat(seen)[:, 0]


class Negative(Softmax):
    def probabilities(self, seen):
        return -super().probabilities(seen)


WRONG = {
    "Unmade": r"Unmade.__init__ raised KeyError: 'no such\\nthing' \(line \d+\)",
    "Blind": r"Blind.forward raised KeyError: 'eyes' \(line \d+\)",
    "Narrow": r"Narrow.forward returned \(2, 2\), expected a tensor \(2, 5\): one value",
    "Talker": r"Talker.forward returned str, expected a tensor \(2, 5\): one value",
    "Empty": r"Empty.__init__ made no parameters: there is nothing to learn.",
    "Cut": r"Cut.forward raised RuntimeError: element 0 of tensors does not require grad",
    "Stumbles": r"Stumbles.update raised AttributeError: 'Batch' .*'rewards' \(line \d+\)",
    "Poet": r"Poet.update returned .*'loss': 'low'.*, expected numbers by name.",
    "Grows": r"Grows.state changed: 'table' is \(\d+, 5\) float64, expected \(\d+, 5\) fl",
    "Stateless": r"Stateless.state gave no arrays: give arrays of numbers, by name.",
    "Objects": r"Objects.state gave 'self' as object: give arrays of numbers, by name.",
    "Unloaded": r"Unloaded.load raised KeyError: 'tables' \(line \d+\)",
    "Flat": r"Flat.values returned \(3,\) float64, expected numbers \(3, 5\): one per w",
    "Negative": r"Negative.probabilities returned -0.2, expected 0 or more.",
}


def act_and_learn(name: str) -> None:
    act(name)
    Crew(own(name), [agent_of()]).train(2)


@pytest.mark.parametrize("name", WRONG)
def test_code_that_goes_wrong_is_named_with_agent_class_and_method(name: str) -> None:
    with pytest.raises(AlgorithmError, match=WRONG[name]) as caught:
        act_and_learn(name)

    assert str(caught.value).startswith("agent '0': ")
    assert "\n" not in str(caught.value)


def test_what_code_raised_is_the_cause_of_the_error() -> None:
    with pytest.raises(AlgorithmError) as caught:
        Crew(own("Blind"), [agent_of()])

    assert isinstance(caught.value.__cause__, KeyError)


class Half:
    def values(self, seen): ...

    def update(self, batch): ...


class Both(LinearQ):
    def probabilities(self, seen): ...


UNFIT = {
    "own": "is '<function own at 0x.*', not a class: name a class that extends torch.nn",
    "Moment": "is neither a network nor an algorithm: name a class that .* state and load.",
    "Half": "is no algorithm yet: it lacks state, load.",
    "Both": "has both values and probabilities: give it one of them.",
    "Nett": "has no 'Nett': did you mean 'Net'",
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_is_neither_network_nor_algorithm_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=UNFIT[name]):
        own(name)


def test_a_file_without_a_class_says_how_to_name_one() -> None:
    with pytest.raises(ConfigError, match="does not say what to take from the file"):
        find_algorithm("./mine.py")


def test_an_algorithm_of_ones_own_cannot_ask_for_priorities() -> None:
    with pytest.raises(ConfigError, match=r"agent '0'.*leave replay\.kind at uniform"):
        Crew(own("LinearQ"), [agent_of(replay={"kind": "prioritised"})])


@pytest.mark.parametrize("name", ["Net", "LinearQ"])
def test_weights_of_another_shape_are_refused_by_name(name: str) -> None:
    learner, agent = own(name).learner, agent_of()
    named = learner.named_weights(agent, learner([agent], SEED).initial(agent)["weights"])
    other = agent_of(spec=spec_of(actions=7))

    with pytest.raises(ConfigError, match=r"(layers\.2\.weight|table)'.*expected"):
        learner.flat_weights(other, named)


# Whole runs.

PLAY = {
    "rounds": 12,
    "worlds": 8,
    "turns_per_round": 20,
    "updates_per_round": 20,
    "batch_size": 32,
    "replay.warmup": 64,
    "epsilon.steps": 1000,
    "discount": 0.5,
    "learning_rate": 0.01,
    "frames": 1,
    "network.width": 16,
}
GAME = "iterated_prisoners_dilemma"


@pytest.mark.parametrize(("first", "second"), [("Net", "LinearQ"), ("Softmax", "iqn")])
def test_agents_of_all_kinds_learn_to_defect(first, second, tmp_path: Path) -> None:
    names = [name if name == "iqn" else f"{__name__}:{name}" for name in (first, second)]
    agents = {i: {"algorithm": name} for i, name in enumerate(names)}

    library.train(GAME, run=tmp_path / "run", agents=agents, **PLAY)

    players = Run(tmp_path / "run", algorithm=names).players()
    past = np.eye(4, dtype=np.uint8).reshape(4, 1, 4)
    assert all(players[i].act({"past": turn}) == 1 for i in (0, 1) for turn in past)


@pytest.mark.shows("A1")
def test_runs_with_users_code_have_the_same_digest_again(tmp_path: Path) -> None:
    agents = {i: {"algorithm": f"{__name__}:{n}"} for i, n in enumerate(("Net", "Drawing"))}
    short = PLAY | {"rounds": 3}

    runs = [
        library.train(GAME, run=tmp_path / name, agents=agents, seed=seed, **short)
        for name, seed in (("one", 1), ("again", 1), ("other", 2))
    ]

    digests = [run.digest()["agents"] for run in runs]
    assert digests[0] == digests[1]
    assert all(digests[0][agent] != digests[2][agent] for agent in ("0", "1"))


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run folder that names code, and a mark that the code would leave."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n"
        f"from {__name__} import LinearQ\n"
        "class Mine(LinearQ): pass\n"
        "with Path('mark').open('a') as mark: mark.write('x')\n"
    )
    short = PLAY | {"rounds": 3, "agents": {1: {"algorithm": "./mine.py:Mine"}}}
    library.train(GAME, run="run", **short)
    (tmp_path / "mark").unlink()
    # Changed, and so not the module that is loaded already.
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# once more\n")
    yield tmp_path / "mark"
    for name in set(sys.modules) - before:
        if name.startswith("rookery_file_"):
            del sys.modules[name]


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(words))
    assert leaving.value.code == 2
    return capsys.readouterr().err


def test_a_run_folder_cannot_make_code_be_imported(trap: Path, capsys) -> None:
    expected = "If you trust this code, add: --algorithm ./mine.py:Mine"

    with pytest.raises(
        ConfigError, match=f"run was trained with './mine.py:Mine'.*{expected}"
    ):
        Run("run").players()
    assert expected in complaint(capsys, "evaluate", "run")
    assert expected in complaint(capsys, "replay", "run")

    assert not trap.exists()


def test_a_configuration_file_cannot_make_code_be_imported(trap: Path, capsys) -> None:
    said = complaint(capsys, "train", GAME, "--config", "run/config.toml", "--run", "new")

    assert "name it on the command line, too: agents.1.algorithm=./mine.py:Mine" in said
    assert not trap.exists()
    assert not Path("new").exists()


def test_code_that_is_named_again_is_used(trap: Path, capsys) -> None:
    words = ["evaluate.episodes=2", "--algorithm", "./mine.py:Mine"]

    with pytest.raises(SystemExit) as leaving:
        cli.main(["evaluate", "run", *words])

    assert leaving.value.code == 0
    assert "trained" in capsys.readouterr().out
    assert trap.exists()


def test_a_digest_needs_no_code(trap: Path) -> None:
    assert set(Run("run").digest()["agents"]) == {"0", "1"}
    assert not trap.exists()
