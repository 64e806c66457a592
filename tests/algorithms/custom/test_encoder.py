"""`network.module`: a user's torch module gives the features, the heads are Rookery's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rookery
from rookery.algorithms.agents import check_agents
from rookery.algorithms.dqn import DQN
from rookery.algorithms.grouping import groups_of
from rookery.algorithms.registry import find_algorithm
from rookery.errors import AlgorithmError, ConfigError
from tests.algorithms.conftest import GroupTrainer, agent_of, same_bits
from tests.small import HUNT

ALGORITHMS = ("dqn", "iqn", "ppo", "vtrace", "recurrent_dqn", "recurrent_ppo")
VALUE_BASED = ("dqn", "iqn", "recurrent_dqn")

FILE = """
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.layers = nn.Sequential(nn.LazyLinear(settings.network.width), nn.ReLU())

    def forward(self, inputs):
        return self.layers(torch.cat([part.flatten(1) for part in inputs.values()], 1))
"""


def flat(inputs):
    return torch.cat([part.flatten(1) for part in inputs.values()], dim=1)


class Linear(nn.Module):
    """What the built-in encoder of one layer computes, for algorithms that use ReLU."""

    activation = staticmethod(torch.relu)

    def __init__(self, spec, settings):
        super().__init__()
        self.read = nn.LazyLinear(settings.network.width)

    def forward(self, inputs):
        return self.activation(self.read(flat(inputs)))


class TanhLinear(Linear):
    activation = staticmethod(torch.tanh)


class Odd(Linear):
    """Has a parameter that is never used, a frozen one and a buffer."""

    def __init__(self, spec, settings):
        super().__init__(spec, settings)
        self.unused = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, inputs):
        return super().forward(inputs) * self.frozen * self.scale


class Narrow(Linear):
    def forward(self, inputs):
        return super().forward(inputs)[:, :3]


class Dropping(Linear):
    def __init__(self, spec, settings):
        super().__init__(spec, settings)
        self.dropout = nn.Dropout(0.5)


class Constant(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.width = settings.network.width

    def forward(self, inputs):
        return torch.ones(len(flat(inputs)), self.width)


class Raising(Linear):
    def forward(self, inputs):
        return inputs["vieww"]


def named(cls: type) -> str:
    return f"{__name__}:{cls.__name__}"


def trainer_of(algorithm: str, module: type | None = None, **settings) -> GroupTrainer:
    network = {"module": named(module)} if module else {}
    return GroupTrainer(find_algorithm(algorithm), [agent_of(network=network, **settings)])


def weights_of(trainer: GroupTrainer) -> dict[str, np.ndarray]:
    agent = trainer.learner.agents[0]
    return trainer.learner.named_weights(agent, trainer.states[0]["weights"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_module_that_computes_what_the_built_in_layers_do_is_trained_alike(
    algorithm: str,
) -> None:
    module = Linear if algorithm in VALUE_BASED else TanhLinear
    ours, theirs = trainer_of(algorithm), trainer_of(algorithm, module)
    before = weights_of(ours)
    (agent,) = theirs.learner.agents
    weights = theirs.learner.flat_weights(agent, _as_module(before))
    theirs.learner.load([theirs.learner.initial(agent) | _fresh(weights)])

    ours.train(2)
    theirs.train(2)

    after, expected = weights_of(theirs), _as_module(weights_of(ours))
    assert after.keys() == expected.keys()
    moved = np.abs(weights_of(ours)["read.0.weight"] - before["read.0.weight"]).max()
    assert moved > 1e-3
    for name, array in expected.items():
        np.testing.assert_allclose(after[name], array, atol=moved / 50, err_msg=name)


def _fresh(weights):
    return {"weights": weights, "target": weights}


def _as_module(weights):
    """Return the built-in network's weights under the names of the module's."""
    rest = {name: array for name, array in weights.items() if "read.0" not in name}
    return rest | {
        "module.read.weight": weights["read.0.weight"].T.copy(),
        "module.read.bias": weights["read.0.bias"][0].copy(),
    }


@pytest.mark.parametrize("algorithm", ["iqn", "ppo"])
def test_unused_parameters_stay_and_frozen_ones_are_not_stored(algorithm: str) -> None:
    trainer = trainer_of(algorithm, Odd)

    (metrics,) = trainer.train(2)

    weights = weights_of(trainer)
    assert metrics["updates"] > 0
    np.testing.assert_array_equal(weights["module.unused"], 1)
    assert not {"module.frozen", "module.scale"} & set(weights)


def test_agents_start_with_different_weights_and_the_same_seed_gives_the_same() -> None:
    learner = trainer_of("ppo", Linear).learner
    first, again, other = (
        learner.initial(agent_of(i, network={"module": named(Linear)})) for i in (0, 0, 1)
    )

    assert same_bits(first, again)
    assert (first["weights"] != other["weights"]).any()


def test_agents_with_a_module_are_never_stacked() -> None:
    agents = [
        replace(agent_of(i, network={"module": named(Linear)}), algorithm=DQN, learns=True)
        for i in range(3)
    ]

    assert [len(group) for group in groups_of(agents)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (Narrow, "forward returned (2, 3), expected a tensor (2, 16): network.width"),
        (Dropping, "__init__ has a Dropout ('dropout'), which does nothing here"),
        (Constant, "__init__ made no trainable parameters, expected at least one."),
        (Raising, "forward raised KeyError: 'vieww'"),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_in_one_line(module, line: str) -> None:
    with pytest.raises(AlgorithmError) as refused:
        trainer_of("ppo", module)

    assert f"agent '0': {named(module)}.{line}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_not_a_module_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"not a class that extends torch\.nn\.Module"):
        trainer_of("iqn", GroupTrainer)


def test_an_algorithm_without_a_network_refuses_a_module() -> None:
    agent = agent_of(network={"module": named(Linear)}, algorithm="tabular")
    agent = replace(agent, algorithm=find_algorithm("tabular"), learns=True)

    with pytest.raises(ConfigError, match=r"network\.module cannot be used with tabular"):
        check_agents([agent])


# Whole runs.


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("algorithm", ["iqn", "ppo", "recurrent_dqn"])
def test_a_run_gives_the_same_bits_with_any_number_of_workers(
    file: Path, algorithm: str
) -> None:
    settings = HUNT | {"algorithm": algorithm, "network.module": "./mine.py:Encoder"}

    digests = {
        rookery.train(
            "treasurehunt", run=f"run-{workers}", workers=workers, **settings
        ).digest()["run"]
        for workers in (0, 2)
    }

    assert len(digests) == 1


@pytest.mark.shows("B8")
def test_a_module_is_only_imported_if_the_user_names_it(file: Path) -> None:
    settings = HUNT | {"rounds": 1, "network.module": "./mine.py:Encoder", "workers": 0}
    run = rookery.train("treasurehunt", run="run", **settings)

    with pytest.raises(ConfigError, match=r"add: --algorithm \./mine\.py:Encoder"):
        rookery.Run(run.path).players()

    assert len(rookery.Run(run.path, algorithm="./mine.py:Encoder").players()) == 3


def test_a_changed_module_marks_a_resumed_run_as_not_exact(file: Path) -> None:
    settings = HUNT | {"network.module": "./mine.py:Encoder", "workers": 0}
    stop = RuntimeError("stop")

    def show(result):
        if result.number == 2:
            raise stop

    with pytest.raises(RuntimeError):
        rookery.train("treasurehunt", run="run", callback=show, **settings)
    file.write_text(FILE.replace("nn.ReLU", "nn.Tanh"))
    run = rookery.resume("run", algorithm="./mine.py:Encoder")

    assert "mine.py is not the file that the run started with" in run.digest()["why"]
