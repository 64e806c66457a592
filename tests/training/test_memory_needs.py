"""What a run needs of memory is known before it takes any, and told in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rookery.training.memory_needs import Need, check_memory, needs_of, what_lacks

from rookery.actor.process import build_game
from rookery.algorithms.agents import build_agents, groups_of
from rookery.algorithms.value_based import ValueBasedLearner
from rookery.cli.app import main
from rookery.errors import ConfigError
from rookery.games.registry import entries_by_name
from rookery.runs.configure import configure
from rookery.shm.block import MemoryRefused
from rookery.training import memory_needs as needs_module
from rookery.training import training as training_module
from rookery.training.memory_plan import plan_memory
from rookery.training.training import Training

GIB = 2**30
HUGE = ("network.width=4096", "network.depth=8", "batch_size=65536")
LINE = re.compile(
    r"the run needs about [\d,]+ MiB of memory, [\d,]+ MiB of it for (?P<what>.+), "
    r"but only [\d,]+ MiB is free: lower (?P<lower>.+)\."
)


def needs(game: str, workers: int = 0, **settings: Any) -> dict[str, Need]:
    entry, config = configure(game, settings=settings)
    made = build_game(entry, config)
    agents = build_agents(config, made.agents)
    arena = plan_memory(entry, config, made, agents)
    made.close()
    return {n.what: n for n in needs_of(arena, config, groups_of(agents), workers)}


def refusal(found: dict[str, Need], free: int = GIB) -> dict[str, str]:
    with pytest.raises(MemoryRefused) as raised:
        check_memory(list(found.values()), free)
    told = LINE.fullmatch(str(raised.value))
    assert told is not None, raised.value
    return told.groupdict()


def total(found: dict[str, Need]) -> int:
    return sum(need.bytes for need in found.values())


# What is refused, and what to lower.


@pytest.mark.shows("C7")
def test_updates_that_do_not_fit_name_the_settings_they_grow_with() -> None:
    settings = {"network.width": 4096, "network.quantiles": 256, "batch_size": 65_536}

    told = refusal(needs("treasurehunt", **settings))

    assert told["what"] == "updates"
    assert set(told["lower"].replace(" or ", ", ").split(", ")) == {
        "batch_size",
        "network.width",
        "network.quantiles",
    }


@pytest.mark.shows("C7")
@pytest.mark.parametrize(
    ("settings", "what", "lower"),
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
def test_the_line_names_what_takes_most_and_what_to_lower(
    settings: dict[str, Any], what: str, lower: str
) -> None:
    assert refusal(needs("treasurehunt", **settings)) == {"what": what, "lower": lower}


def test_processes_that_do_not_fit_are_to_be_fewer() -> None:
    small = {"network.width": 16, "replay.capacity": 2000}

    told = refusal(needs("treasurehunt", 40, **small))

    assert told == {"what": "processes", "lower": "workers"}


def test_just_enough_is_enough_and_a_byte_less_is_not() -> None:
    found = [Need("replays", 3 << 20, "worlds"), Need("updates", 1 << 20, "batch_size")]

    check_memory(found, 4 << 20)
    with pytest.raises(ConfigError) as raised:
        check_memory(found, (4 << 20) - 1)

    assert str(raised.value) == (
        "the run needs about 4 MiB of memory, 3 MiB of it for replays, but only 3 MiB is "
        "free: lower worlds."
    )


def test_replays_on_disk_take_no_memory_but_for_saving_them() -> None:
    large = {"replay.capacity": 1_000_000}

    in_memory = needs("treasurehunt", **large)
    on_disk = needs("treasurehunt", **large, storage="disk")
    unsaved = needs(
        "treasurehunt", **large, storage="disk", **{"checkpoints.replay": False}
    )

    assert total(in_memory) > total(on_disk) > total(unsaved)
    assert unsaved["replays"].bytes == 0


# In several processes.


def test_groups_that_learn_one_after_the_other_take_what_the_largest_takes() -> None:
    alike: dict[str, Any] = {"game.agents": 3, "batch_size": 4096}
    mixed = {**alike, "agents": {i: {"network": {"depth": 1 + i}} for i in range(3)}}

    one, company = needs("treasurehunt", **mixed), needs("treasurehunt", **alike)
    apart = needs("treasurehunt", 3, **mixed)

    assert one["updates"].bytes < company["updates"].bytes / 2
    assert apart["updates"].bytes > 2.5 * one["updates"].bytes
    assert apart["processes"].bytes > one["processes"].bytes == 0


def test_auto_stays_in_one_process_where_several_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"network.width": 16, "replay.capacity": 2000, "worlds": 4}
    entry, config = configure("treasurehunt", settings=settings)
    monkeypatch.setattr(needs_module, "cores", lambda: 3)
    monkeypatch.setattr(training_module, "available", lambda: 200 << 20)

    training = Training.build(entry, config)

    assert training.executor.autoscaler is None
    (line,) = [one for one in training.warnings if "several" in one]
    assert line.startswith("several processes would need about 6")
    assert line.endswith("but only 200 MiB is free: the run stays in one process.")
    training.close()


# Nothing that fits is refused, and nothing is begun that does not.


@pytest.mark.parametrize("name", sorted(entries_by_name()))
@pytest.mark.parametrize("width", [128, 1024])
def test_games_as_they_come_and_with_wide_networks_fit_a_laptop(
    name: str, width: int
) -> None:
    found = needs(name, **{"network.width": width})

    assert what_lacks(list(found.values()), 6 * GIB) == ""
    assert total(found) > 2**20


@pytest.mark.shows("C7")
def test_a_run_that_cannot_fit_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    monkeypatch.setattr(
        ValueBasedLearner, "__init__", lambda *about: pytest.fail("was built")
    )

    with pytest.raises(SystemExit) as raised:
        main(["train", "treasurehunt", *HUGE, "network.quantiles=256", f"--run={path}"])

    (line,) = capsys.readouterr().err.splitlines()
    assert raised.value.code == 2
    assert LINE.fullmatch(line.removeprefix("error: ")), line
    assert not path.exists()
