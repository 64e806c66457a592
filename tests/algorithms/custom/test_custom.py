"""Custom networks and algorithms: how they are called, trained and refused."""

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

from rookery.algorithms.base import Agent, PolicyInput, PolicyOutput
from rookery.algorithms.grouping import groups_of
from rookery.algorithms.registry import find_algorithm
from rookery.api import train as library
from rookery.cli import app as cli
from rookery.errors import AlgorithmError, ConfigError
from rookery.runs.run import Run
from tests.algorithms.conftest import (
    SEED,
    WORLDS,
    GroupTrainer,
    agent_of,
    same_bits,
    spec_of,
)

# Users' classes. `custom("Net")` finds these by import path, as it would in a file.


class Net(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        width = settings.network.width
        self.layers = nn.Sequential(
            nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, spec.num_actions)
        )

    def forward(self, inputs):
        return self.layers(torch.cat([part.flatten(1) for part in inputs.values()], 1))


class ComplexNet(Net):
    """Has buffers, randomness, an unused parameter and a fixed one."""

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
        weights = np.exp(2 * (flat(seen) @ self.table))
        return weights / weights.sum(axis=1, keepdims=True)

    def update(self, batch):
        errors = batch.returns - batch.returns.mean()
        for row, action, error in zip(flat(batch.seen), batch.actions, errors, strict=True):
            self.table[:, action] += self.rate * error * row


class Drawing(LinearQ):
    """Draws from all generators, in its constructor and when it learns."""

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
    """Counts its updates outside of `state`."""

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


def custom(name: str):
    return find_algorithm(f"{__name__}:{name}")


def agents_of(name: str, count: int) -> list[Agent]:
    return [replace(agent_of(i), algorithm=custom(name), learns=True) for i in range(count)]


# A network is trained by double DQN.


def test_a_network_is_trained_as_by_a_plain_implementation_of_double_dqn() -> None:
    agent = agent_of(updates_per_round=1, target={"every": 2, "rate": 1.0})
    trainer = GroupTrainer(custom("Net"), [agent])
    online, target = (module(trainer, agent) for _ in range(2))
    adam = torch.optim.Adam(online.parameters(), agent.settings.learning_rate)

    for update in range(4):
        trainer.train()
        batch = drawn(trainer, update=0)
        next_seen, rows = tensors(batch.next_seen, agent), torch.arange(8)
        best = online(next_seen).argmax(1)
        next_values = target(next_seen)[rows, best].detach()
        targets = torch.tensor(batch.returns) + torch.tensor(batch.discounts) * next_values
        values = online(tensors(batch.seen, agent))[rows, torch.tensor(batch.actions)]
        adam.zero_grad()
        nn.functional.huber_loss(values, targets).backward()
        adam.step()
        if update % 2:
            target.load_state_dict(online.state_dict())

    named = trainer.learner.named_weights(agent, trainer.states[0]["weights"])
    for name, parameter in online.named_parameters():
        np.testing.assert_allclose(named[name], parameter.detach(), rtol=2e-3, atol=1e-5)


def module(trainer: GroupTrainer, agent) -> nn.Module:
    """Return the network with the weights that a trainer has now."""
    network = Net(agent.spec, agent.settings)
    zeros = {n: np.zeros((1, 2, *p.shape), np.float32) for n, p in agent.spec.parts.items()}
    network(tensors(zeros, agent))
    named = trainer.learner.named_weights(agent, trainer.states[0]["weights"])
    network.load_state_dict({name: torch.tensor(array) for name, array in named.items()})
    return network


def tensors(seen, agent):
    parts = agent.spec.parts
    return {n: torch.tensor(a).float() * parts[n].scale for n, a in seen.items()}


def drawn(trainer: GroupTrainer, update: int):
    """Return the batch that was drawn for an update of the newest round."""
    reader, agent = trainer.experiences[0].reader, trainer.learner.agents[0]
    numbers = trainer.learner.stream.uniform(
        (agent.number, trainer.round, update), 0, agent.settings.batch_size
    )
    return reader.batch(reader.sample(numbers[0]))


def test_buffers_are_weights_and_learn_while_fixed_and_unused_parameters_stay() -> None:
    trainer = GroupTrainer(custom("ComplexNet"), [agent_of()])
    before = trainer.learner.named_weights(
        trainer.learner.agents[0], trainer.states[0]["weights"]
    )

    trainer.train(2)

    after = trainer.learner.named_weights(
        trainer.learner.agents[0], trainer.states[0]["weights"]
    )
    assert (after["normal.running_mean"] != before["normal.running_mean"]).all()
    assert after["normal.num_batches_tracked"] == 6
    assert (after["layers.2.weight"] != before["layers.2.weight"]).any()
    np.testing.assert_array_equal(after["fixed"], 1)
    np.testing.assert_array_equal(after["unused"], 1)


@pytest.mark.parametrize("name", ["ComplexNet", "LinearQ", "Drawing"])
@pytest.mark.shows("A1")
def test_the_same_seed_gives_the_same_bits_whatever_was_drawn_before(name: str) -> None:
    first, again, other = (
        GroupTrainer(custom(name), [agent_of()], seed=s) for s in (1, 1, 2)
    )

    first.train(3)
    torch.rand(5), np.random.normal(size=3), random.random()
    again.train(3)
    other.train(3)

    assert same_bits(first.states[0], again.states[0])
    assert not same_bits(first.states[0], other.states[0])


@pytest.mark.parametrize("name", ["ComplexNet", "Forgetful"])
def test_a_state_by_name_comes_back_to_the_last_bit(name: str) -> None:
    trainer = GroupTrainer(custom(name), [agent_of()])
    trainer.train(2)
    (state,) = trainer.states

    named = {key: np.array(array) for key, array in trainer.learner.named(state).items()}

    assert same_bits(trainer.learner.unnamed(named), state)


@pytest.mark.parametrize("name", ["Net", "LinearQ", "Softmax"])
def test_agents_with_masked_actions_learn(name: str) -> None:
    trainer = GroupTrainer(custom(name), [agent_of(spec=spec_of(masked=True))])

    (metrics,) = trainer.train(2)

    assert metrics["updates"] == 3
    assert "stopped" not in metrics


def test_a_network_can_learn_from_a_prioritised_replay() -> None:
    trainer = GroupTrainer(custom("Net"), [agent_of(replay={"kind": "prioritised"})])

    (metrics,) = trainer.train(2)

    assert metrics["updates"] == 3
    assert np.ptp(trainer.states[0]["priorities"]) > 0


def test_a_network_that_is_stopped_by_nan_keeps_its_last_good_state() -> None:
    trainer = GroupTrainer(custom("ComplexNet"), [agent_of()])
    trainer.train(2)

    (metrics,) = trainer.train(1, nan_rewards=[0])

    (state,) = trainer.states
    assert metrics["stopped"] == 1
    assert np.isfinite(state["weights"]).all()
    batches = trainer.learner.named(state)["weights.normal.num_batches_tracked"]
    assert batches == state["counters"][0]


def test_custom_networks_are_never_stacked() -> None:
    assert [len(group) for group in groups_of(agents_of("Net", 3))] == [1, 1, 1]


# An algorithm keeps its state, and nothing else.


def test_users_code_draws_seeded_numbers_and_other_generators_are_restored() -> None:
    learner = custom("Drawing").learner([agent_of(0)], SEED)
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    expected = [float(torch.rand(())), np.random.random(), random.random()]
    torch.manual_seed(5), np.random.seed(5), random.seed(5)

    first, again, neighbour = (learner.initial(agent_of(i))["weights"] for i in (0, 0, 1))

    assert [float(torch.rand(())), np.random.random(), random.random()] == expected
    assert first.tobytes() == again.tobytes()
    assert not set(first.view(np.float64)) & set(neighbour.view(np.float64))


def test_only_what_the_state_holds_survives_a_round() -> None:
    trainer = GroupTrainer(custom("Forgetful"), [agent_of(updates_per_round=3)])

    trainer.train(4)

    state = trainer.learner.named(trainer.states[0])
    assert state["weights.most"] == 3
    assert state["weights.big"] == 2**60 + 1
    assert state["counters"].tolist() == [12, 0]


def test_an_algorithm_makes_no_updates_during_warm_up() -> None:
    trainer = GroupTrainer(
        custom("LinearQ"), [agent_of(replay={"warmup": 40, "capacity": 90})]
    )

    (early,) = trainer.train(1)
    (late,) = trainer.train(2)

    assert early == {"updates": 0, "usable_steps": early["usable_steps"]}
    assert late["updates"] == 3
    assert late["loss"] > 0


def test_an_algorithm_that_is_stopped_by_nan_keeps_its_last_good_state() -> None:
    trainer = GroupTrainer(custom("LinearQ"), [agent_of()])
    trainer.train(2)
    (good,) = trainer.states

    (metrics,) = trainer.train(1, nan_rewards=[0])
    (after,) = trainer.train(1)

    assert metrics["stopped"] == after["stopped"] == 1
    assert metrics["updates"] == 0
    assert same_bits(trainer.states[0] | {"counters": good["counters"]}, good)


# Acting.


def test_an_algorithm_with_probabilities_always_samples() -> None:
    settings = agent_of(epsilon={"end": 0.0, "steps": 10}).settings

    assert custom("Softmax").learner.exploration(settings, 10**6) == 1.0
    assert custom("LinearQ").learner.exploration(settings, 10**6) == 0.0


@pytest.mark.parametrize("name", ["Net", "LinearQ", "Softmax"])
def test_the_same_input_gets_the_same_output(name: str) -> None:
    first, second = (act(name) for _ in "ab")

    assert same_bits(vars(first), vars(second))
    assert first.actions.shape == (1, WORLDS)


def act(name: str) -> PolicyOutput:
    agent, algorithm = agent_of(), custom(name)
    policy = algorithm.policy([agent], SEED)
    policy.begin_round([algorithm.learner([agent], SEED).initial(agent)["weights"]], 1)
    parts = agent.spec.parts.items()
    seen = {n: np.ones((WORLDS, 2, *p.shape), p.dtype) for n, p in parts}
    draws = np.linspace(0, 0.9, WORLDS * 2).reshape(1, WORLDS, 2)
    return policy.act(PolicyInput([seen], [None], draws, np.array([0.3])))


# Errors.


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
    "Empty": r"Empty.__init__ made no trainable parameters, expected at least one.",
    "Cut": r"Cut.forward raised RuntimeError: element 0 of tensors does not require grad",
    "Stumbles": r"Stumbles.update raised AttributeError: 'Batch' .*'rewards' \(line \d+\)",
    "Poet": r"Poet.update returned .*'loss': 'low'.*, expected numbers by name.",
    "Grows": r"Grows.state changed: 'table' is \(\d+, 5\) float64, expected \(\d+, 5\) fl",
    "Stateless": r"Stateless.state returned no arrays, expected a dict of numeric arrays",
    "Objects": r"Objects.state returned 'self' as object, expected a dict of numeric",
    "Unloaded": r"Unloaded.load raised KeyError: 'tables' \(line \d+\)",
    "Flat": r"Flat.values returned \(3,\) float64, expected numbers \(3, 5\): one per w",
    "Negative": r"Negative.probabilities returned -0.2, expected 0 or more.",
}


def act_and_learn(name: str) -> None:
    act(name)
    GroupTrainer(custom(name), [agent_of()]).train(2)


@pytest.mark.parametrize("name", WRONG)
def test_an_error_in_users_code_names_agent_class_and_method(name: str) -> None:
    with pytest.raises(AlgorithmError, match=WRONG[name]) as caught:
        act_and_learn(name)

    assert str(caught.value).startswith("agent '0': ")
    assert "\n" not in str(caught.value)


def test_the_original_exception_is_the_cause_of_the_error() -> None:
    with pytest.raises(AlgorithmError) as caught:
        GroupTrainer(custom("Blind"), [agent_of()])

    assert isinstance(caught.value.__cause__, KeyError)


class Half:
    def values(self, seen): ...

    def update(self, batch): ...


class Both(LinearQ):
    def probabilities(self, seen): ...


UNFIT = {
    "custom": "is '<function custom at 0x.*', not a class: name a class that extends",
    "PolicyInput": "is neither a network nor an algorithm: name a class .* state and load.",
    "Half": "is not a complete algorithm: it lacks state, load.",
    "Both": "has both values and probabilities: remove one of them.",
    "Nett": "has no 'Nett': did you mean 'Net'",
}


@pytest.mark.parametrize("name", UNFIT)
def test_an_object_that_is_neither_network_nor_algorithm_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=UNFIT[name]):
        custom(name)


def test_a_file_without_a_class_says_how_to_name_one() -> None:
    with pytest.raises(ConfigError, match="does not say what to take from the file"):
        find_algorithm("./mine.py")


def test_a_custom_algorithm_cannot_have_prioritised_replay() -> None:
    with pytest.raises(ConfigError, match=r"agent '0'.*set replay\.kind=uniform"):
        GroupTrainer(custom("LinearQ"), [agent_of(replay={"kind": "prioritised"})])


@pytest.mark.parametrize("name", ["Net", "LinearQ"])
def test_weights_of_another_shape_are_refused_by_name(name: str) -> None:
    learner, agent = custom(name).learner, agent_of()
    named = learner.named_weights(agent, learner([agent], SEED).initial(agent)["weights"])
    other = agent_of(spec=spec_of(actions=7))

    with pytest.raises(ConfigError, match=r"(layers\.2\.weight|table)'.*expected"):
        learner.flat_weights(other, named)


# Whole runs.

PLAY = {
    "rounds": 16,
    "worlds": 8,
    "turns_per_round": 20,
    "updates_per_round": 20,
    "batch_size": 32,
    "replay.warmup": 64,
    "epsilon.steps": 1000,
    "epsilon.end": 0.5,  # so that all pasts are visited
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
def test_runs_with_custom_algorithms_have_the_same_digest_again(tmp_path: Path) -> None:
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
    """A run folder that names code, and a file that the code would write."""
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


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(arguments))
    assert leaving.value.code == 2
    return capsys.readouterr().err


def test_a_run_folder_cannot_make_code_be_imported(trap: Path, capsys) -> None:
    expected = "If you trust this code, add: --algorithm ./mine.py:Mine"

    with pytest.raises(
        ConfigError, match=f"run was trained with './mine.py:Mine'.*{expected}"
    ):
        Run("run").players()
    assert expected in refusal(capsys, "evaluate", "run")
    assert expected in refusal(capsys, "replay", "run")

    assert not trap.exists()


def test_a_configuration_file_cannot_make_code_be_imported(trap: Path, capsys) -> None:
    message = refusal(capsys, "train", GAME, "--config", "run/config.toml", "--run", "new")

    assert "name it on the command line, too: agents.1.algorithm=./mine.py:Mine" in message
    assert not trap.exists()
    assert not Path("new").exists()


def test_code_that_is_named_again_is_used(trap: Path, capsys) -> None:
    options = ["evaluate.episodes=2", "--algorithm", "./mine.py:Mine"]

    with pytest.raises(SystemExit) as leaving:
        cli.main(["evaluate", "run", *options])

    assert leaving.value.code == 0
    assert "trained" in capsys.readouterr().out
    assert trap.exists()


def test_a_digest_needs_no_code(trap: Path) -> None:
    assert set(Run("run").digest()["agents"]) == {"0", "1"}
    assert not trap.exists()
