"""The proof of independence, and that it finds agents that are not independent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.algorithms import value_based as values
from rookery.algorithms.common import group
from rookery.cli import app as cli
from rookery.learner.exactness import Groups
from rookery.runs.run import Run

SMALL = {
    "rounds": 1,
    "workers": 0,
    "worlds": 4,
    "turns_per_round": 12,
    "updates_per_round": 2,
    "batch_size": 16,
    "frames": 2,
    "network": {"width": 16, "quantiles": 2},
    "iqn": {"acting_quantiles": 2},
    "replay": {"capacity": 500, "warmup": 16},
    "game": {"agents": 2, "turns": 10},
}
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.layers = nn.Sequential(nn.LazyLinear(16), nn.ReLU())
        self.head = HEAD

    def forward(self, inputs):
        seen = torch.cat([part.flatten(1) for part in inputs.values()], 1)
        CHANGE
        return self.head(self.layers(seen))[:, :4]
"""
CUSTOM = NET.replace("HEAD", "nn.Linear(16, 4)").replace("CHANGE", "pass")
RUNNING_MEAN = (
    NET.replace("HEAD", "nn.Linear(16, 4)")
    .replace("CHANGE", "MEAN.mul_(0.9).add_(0.1 * seen.mean()); seen = seen - MEAN")
    .replace("class Net", "MEAN = torch.zeros(1)\n\nclass Net")
)
ONE_HEAD = (NET.replace("HEAD", "LAST").replace("CHANGE", "pass")).replace(
    "class Net", "LAST = nn.Linear(16, 4)\n\nclass Net"
)
COUNTER = (
    NET.replace("HEAD", "nn.Linear(16, 4)")
    .replace("CHANGE", "Net.calls += 1; seen = seen * (1 + Net.calls / 100)")
    .replace("    def forward", "    calls = 0\n\n    def forward")
)


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Train a small run: trained(code, **settings), with code of a custom network."""
    monkeypatch.chdir(tmp_path)

    def train(code: str | None = None, **settings) -> Run:
        if code is not None:
            Path("mine.py").write_text(code)
            settings["algorithm"] = "./mine.py:Net"
        return rookery.train("treasurehunt", run="run", **(SMALL | settings))

    return train


@pytest.mark.shows("A2")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"replay": {"kind": "prioritised", "capacity": 500, "warmup": 16}},
        {"agents": {"1": {"algorithm": "ppo"}}},
        {"iqn": {"noisy": True, "acting_quantiles": 2}},
    ],
    ids=["alike", "prioritised", "unlike", "noisy"],
)
def test_altering_one_agent_changes_not_one_bit_of_the_others(trained, settings):
    report = rookery.independence(trained(**settings))

    assert report.is_independent, str(report)
    assert not report.notes
    tried = {
        (comparison.agent, comparison.altered, comparison.how)
        for comparison in report.comparisons
    }
    for how in ("experience", "failure", "seed", "settings", "network", "algorithm"):
        assert {("0", "1", how), ("1", "0", how)} <= tried


@pytest.mark.shows("A2")
def test_custom_networks_in_one_module_are_independent(trained):
    report = rookery.independence(trained(CUSTOM))

    assert report.is_independent, str(report)
    assert {comparison.how for comparison in report.comparisons} >= {
        "experience",
        "seed",
        "absence",
    }


@pytest.mark.shows("A2")
@pytest.mark.parametrize(
    ("code", "name"),
    [
        (RUNNING_MEAN, "MEAN in ./mine.py"),
        (ONE_HEAD, "LAST in ./mine.py"),
        (COUNTER, "Net.calls in ./mine.py"),
    ],
    ids=["a mean over all", "a layer of all", "a counter of the class"],
)
def test_state_that_custom_code_shares_is_found_and_named(trained, code, name):
    report = rookery.independence(trained(code))

    assert not report.is_independent
    assert any(line.startswith(name) for line in report.shared)
    assert f"shared: {name}" in str(report)


def all_exact(groups: Any, *_: Any) -> Groups:
    return Groups(groups, [], [])


def test_a_gradient_clipped_by_the_norm_of_all_agents_is_found(trained, monkeypatch):
    run, clip = trained(gradient={"clip": 0.01}), group.clip_factors
    monkeypatch.setattr(
        group,
        "clip_factors",
        lambda norms, most: clip(np.full_like(norms, np.nansum(norms)), most),
    )
    monkeypatch.setattr(
        "rookery.studies.independence.replay.split_groups",
        all_exact,
    )
    monkeypatch.setattr("rookery.training.training.split_groups", all_exact)

    report = rookery.independence(Run(run.path))

    assert {"experience", "settings"} <= {
        comparison.how for comparison in report.differences
    }


def test_random_numbers_keyed_by_index_and_not_by_agent_are_found(trained, monkeypatch):
    run = trained()
    monkeypatch.setattr(
        values.ValueBasedLearner,
        "__init__",
        _after(
            values.ValueBasedLearner.__init__,
            lambda learner: setattr(
                learner,
                "agent_numbers",
                learner.agent_numbers[:1].repeat(len(learner.agents)),
            ),
        ),
    )
    monkeypatch.setattr("rookery.training.training.split_groups", all_exact)

    report = rookery.independence(Run(run.path))

    assert {
        comparison.altered for comparison in report.differences if comparison.how == "seed"
    } == {"0"}


def _after(call, then):
    def call_twice(self, *arguments, **options):
        call(self, *arguments, **options)
        then(self)

    return call_twice


def test_a_common_origin_is_named_and_does_not_count_as_shared(trained):
    run = trained()
    run = rookery.train(
        "treasurehunt", run="next", **SMALL, agents={"[01]": {"from": "run:1"}}
    )

    report = rookery.independence(run)

    assert report.is_independent
    assert "agents 0, 1 started from run:1, each from a separate copy" in report.common


def test_an_agent_among_scripted_players_is_trivially_independent(trained):
    run = trained(agents={"1": {"player": "random"}})

    report = rookery.independence(run)

    assert report.is_independent
    assert report.conclusion == "independent: no other agent learns."


def test_the_command_prints_a_table_and_ends_with_0(trained, capsys):
    trained()

    with pytest.raises(SystemExit) as ended:
        cli.main(["independence", "run"])

    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert "not one bit changed" in printed
    assert "independent: 16 comparisons" in printed


def test_the_command_ends_with_1_where_something_is_shared(trained, capsys):
    trained(RUNNING_MEAN)

    with pytest.raises(SystemExit) as ended:
        cli.main(["independence", "run", "--algorithm", "./mine.py:Net", "--json"])

    printed = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    assert printed["independent"] is False
    assert printed["shared"][0].startswith("MEAN in ./mine.py")


def test_code_that_only_the_folder_names_is_not_run(trained, capsys):
    trained(CUSTOM)

    with pytest.raises(SystemExit) as ended:
        cli.main(["independence", "run"])

    assert ended.value.code == 2
    assert (
        "If you trust this code, add: --algorithm ./mine.py:Net" in capsys.readouterr().err
    )
