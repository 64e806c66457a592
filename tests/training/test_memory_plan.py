"""How much memory a run needs: known, and refused if too much, before it starts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rookery.algorithms.agents import build_agents
from rookery.algorithms.grouping import groups_of
from rookery.algorithms.value_based import ValueBasedLearner
from rookery.cli.app import main
from rookery.cli.train import train_one
from rookery.errors import ConfigError
from rookery.evaluation.play import Match
from rookery.games.episodes import Episode
from rookery.games.registry import entries_by_name
from rookery.runs.configure import configure
from rookery.shm.block import MemoryRefused
from rookery.specs import AgentSpec
from rookery.training import memory_plan
from rookery.training import training as training_module
from rookery.training.memory_plan import (
    PROCESS_BYTES,
    MemoryNeed,
    check_memory,
    needs_of,
    plan_memory,
    report_bytes,
    shortage_of,
)
from rookery.training.training import Training

GIB = 2**30
HUGE = ("network.width=4096", "network.depth=8", "batch_size=65536")
QUICK = {"turns_per_round": 20, "worlds": 4, "network.width": 16, "epsilon.steps": 100}
LINE = re.compile(
    r"the run needs about [\d,]+ MiB of memory, [\d,]+ MiB of it for (?P<purpose>.+), "
    r"but only [\d,]+ MiB is free: lower (?P<lower>.+)\."
)


def needs(
    game: str, workers: int = 0, actors: int = 1, **settings: Any
) -> dict[str, MemoryNeed]:
    entry, config = configure(game, settings=settings)
    built = entry.build_guarded(config.game.settings, config.worlds, config.seed)
    agents = build_agents(config, built.agents)
    arena = plan_memory(entry, config, built, agents)
    built.close()
    listed = needs_of(arena, config, groups_of(agents), workers, actors)
    return {need.purpose: need for need in listed}


def refusal(needs: dict[str, MemoryNeed], free: int = GIB) -> dict[str, str]:
    with pytest.raises(MemoryRefused) as raised:
        check_memory(list(needs.values()), free)
    message = LINE.fullmatch(str(raised.value))
    assert message is not None, raised.value
    return message.groupdict()


def total(needs: dict[str, MemoryNeed]) -> int:
    return sum(need.bytes for need in needs.values())


# Shared memory.


@pytest.mark.shows("C7")
def test_memory_is_printed_before_training_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    settings = {**QUICK, "replay.capacity": 200_000, "rounds": 1, "workers": 0}
    entry, config = configure("treasurehunt", settings=settings)
    path.mkdir()

    train_one(entry, config, path, quiet=False)

    printed = capsys.readouterr().err.splitlines()
    line = next(line for line in printed if line.startswith("memory: "))
    assert re.fullmatch(
        r"memory: \d+ MiB \(replays \d+, states \d\.\d, the rest 0\.\d\)", line
    )
    events = [json.loads(x) for x in (path / "events.jsonl").read_text().splitlines()]
    start = next(event for event in events if event["event"] == "start")
    assert set(start["bytes"]) == {"replays", "states", "the rest"}


@pytest.mark.shows("C7")
def test_an_agents_state_takes_two_slots_and_no_more() -> None:
    training = Training.build(*configure("treasurehunt", settings=QUICK))

    for agent in training.agents:
        assert agent.algorithm is not None
        states = training.arena.states(agent.id)
        size = sum(a.nbytes for a in training.initial_state(agent).values())
        padding = 64 * len(states.names)
        layout = training.arena._layouts[f"state {agent.id}"]
        assert 2 * size <= layout.bytes <= 2 * (size + padding)
    training.close()


# Refusals, and which settings to lower.


@pytest.mark.shows("C7")
def test_updates_that_do_not_fit_name_the_settings_they_grow_with() -> None:
    settings = {"network.width": 4096, "network.quantiles": 256, "batch_size": 65_536}

    refused = refusal(needs("treasurehunt", **settings))

    assert refused["purpose"] == "updates"
    assert set(refused["lower"].replace(" or ", ", ").split(", ")) == {
        "batch_size",
        "network.width",
        "network.quantiles",
    }


@pytest.mark.shows("C7")
@pytest.mark.parametrize(
    ("settings", "purpose", "lower"),
    [
        (
            {"replay.capacity": 10_000_000},
            "replays and their copies for checkpoints",
            "replay.capacity or worlds, or leave replays out of checkpoints "
            "(checkpoints.replay=false)",
        ),
        (
            {"replay.capacity": 10_000_000, "checkpoints.replay": False},
            "replays",
            "replay.capacity or worlds",
        ),
        (
            {"network.width": 4096, "network.depth": 8, "algorithm": "ppo"},
            "states of agents",
            "network.width or network.depth",
        ),
        (
            {"worlds": 4096, "iqn.acting_quantiles": 256, "replay.capacity": 100_000},
            "acting",
            "worlds, network.width or iqn.acting_quantiles",
        ),
    ],
    ids=["replays", "replays that are not saved", "networks", "acting"],
)
def test_the_message_names_the_largest_need_and_what_to_lower(
    settings: dict[str, Any], purpose: str, lower: str
) -> None:
    refused = refusal(needs("treasurehunt", **settings))

    assert refused == {"purpose": purpose, "lower": lower}


def test_if_processes_do_not_fit_workers_is_to_be_lowered() -> None:
    small = {"network.width": 16, "replay.capacity": 2000}

    refused = refusal(needs("treasurehunt", 40, **small))

    assert refused == {"purpose": "processes", "lower": "workers"}


def test_every_actor_is_a_process() -> None:
    one, four = (needs("treasurehunt", 2, actors)["processes"] for actors in (1, 4))

    assert four.bytes - one.bytes == 3 * PROCESS_BYTES
    assert four.lower == "workers or actors"


def test_memory_is_refused_from_one_byte_too_little() -> None:
    two = [
        MemoryNeed("replays", 3 << 20, "worlds"),
        MemoryNeed("updates", 1 << 20, "batch_size"),
    ]

    check_memory(two, 4 << 20)
    with pytest.raises(ConfigError) as raised:
        check_memory(two, (4 << 20) - 1)

    assert str(raised.value) == (
        "the run needs about 4 MiB of memory, 3 MiB of it for replays, but only 3 MiB is "
        "free: lower worlds."
    )


def test_replays_on_disk_need_memory_only_to_be_saved() -> None:
    large = {"replay.capacity": 1_000_000}

    in_memory = needs("treasurehunt", **large)
    on_disk = needs("treasurehunt", **large, storage="disk")
    unsaved = needs(
        "treasurehunt", **large, storage="disk", **{"checkpoints.replay": False}
    )

    assert total(in_memory) > total(on_disk) > total(unsaved)
    assert unsaved["replays"].bytes == 0


# In several processes.


def test_groups_that_learn_one_after_the_other_need_as_much_as_the_largest() -> None:
    alike: dict[str, Any] = {"game.agents": 3, "batch_size": 4096}
    mixed = {**alike, "agents": {i: {"network": {"depth": 1 + i}} for i in range(3)}}

    separate, stacked = needs("treasurehunt", **mixed), needs("treasurehunt", **alike)
    parallel = needs("treasurehunt", 3, **mixed)

    assert separate["updates"].bytes < stacked["updates"].bytes / 2
    assert parallel["updates"].bytes > 2.5 * separate["updates"].bytes
    assert parallel["processes"].bytes > separate["processes"].bytes == 0


def test_auto_stays_in_one_process_where_several_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"network.width": 16, "replay.capacity": 2000, "worlds": 4}
    entry, config = configure("treasurehunt", settings=settings)
    monkeypatch.setattr(memory_plan, "cores", lambda: 3)
    monkeypatch.setattr(training_module, "available", lambda: 200 << 20)

    training = Training.build(entry, config)

    assert training.executor.autoscaler is None
    (line,) = [line for line in training.warnings if "several" in line]
    assert line.startswith("several processes would need about 6")
    assert line.endswith("but only 200 MiB is free: the run stays in one process.")
    training.close()


# What fits is not refused, and what does not fit is not started.


@pytest.mark.parametrize("name", sorted(entries_by_name()))
@pytest.mark.parametrize("width", [128, 1024])
def test_games_with_default_and_with_wide_networks_fit_a_laptop(
    name: str, width: int
) -> None:
    usual = needs(name, **{"network.width": width})

    assert shortage_of(list(usual.values()), 6 * GIB) == ""
    assert total(usual) > 2**20


@pytest.mark.shows("C7")
def test_a_run_that_cannot_fit_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    monkeypatch.setattr(
        ValueBasedLearner, "__init__", lambda *arguments: pytest.fail("was built")
    )

    with pytest.raises(SystemExit) as raised:
        main(["train", "treasurehunt", *HUGE, "network.quantiles=256", f"--run={path}"])

    (line,) = capsys.readouterr().err.splitlines()
    assert raised.value.code == 2
    assert LINE.fullmatch(line.removeprefix("error: ")), line
    assert not path.exists()


@pytest.mark.parametrize(("agents", "counts"), [(1, 0), (100, 40), (3, 200)])
def test_the_report_of_an_evaluation_fits_with_any_number_of_counts(
    agents: int, counts: int
) -> None:
    specs = tuple(
        AgentSpec(f"agent_{i}" + "é" * 20, "agent", {}, ("left", "right"))
        for i in range(agents)
    )
    numbers = np.full(agents, -1.2345678901234567e-100)
    names = [f"count_{'é' * 30}_{i}" for i in range(counts)]
    episodes = [Episode(0, 0, 1, numbers, dict.fromkeys(names, numbers))]
    summary = Match("tag", specs, ("trained",) * agents, episodes, cut=1).summary()
    evaluation = {"episodes": 1, **summary}
    evaluations = {"greedy": evaluation, "as_trained": evaluation}
    report = {"round": 2**62, "evaluations": evaluations}
    _, config = configure("gathering", ["worlds=1", "turns_per_round=1"])
    game: Any = SimpleNamespace(agents=specs, counts=names)

    size = report_bytes(config, game)

    assert len(json.dumps(report, separators=(",", ":"))) + 8 <= size
