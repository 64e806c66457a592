"""Global settings of torch and numpy that users change do not change results."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.algorithms.torch_setup import _modes, _read, standard_state

SMALL: dict[str, Any] = {
    "rounds": 3,
    "workers": 0,
    "worlds": 2,
    "turns_per_round": 8,
    "updates_per_round": 2,
    "batch_size": 8,
    "frames": 2,
    "network": {"width": 16, "quantiles": 2},
    "replay": {"capacity": 60, "warmup": 8},
    "game": {"agents": 2, "turns": 9},
}
SCOPES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "another device": lambda: torch.device("meta"),
    "numpy raises": lambda: np.errstate(all="raise"),
}
CHANGES = {
    "float64": "torch.set_default_dtype(torch.float64)",
    "bfloat16": "torch.set_default_dtype(torch.bfloat16)",
    "gradients off": "torch.set_grad_enabled(False)",
    "autocast for good": "torch.set_autocast_enabled('cpu', True)",
    "default device": "torch.set_default_device('meta')",
    "threads": "torch.set_num_threads(2)",
    "deterministic": "torch.use_deterministic_algorithms(True)",
    "warn only": "torch.use_deterministic_algorithms(True, warn_only=True)",
    "old precision": "torch.set_float32_matmul_precision('medium')",
    "new precision": "torch.backends.mkldnn.matmul.fp32_precision = 'bf16'",
    "without mkldnn": "torch.backends.mkldnn.enabled = False",
    "denormals": "torch.set_flush_denormal(True)",
    "numpy raises": "np.seterr(all='raise')",
}
BACK = """
torch.set_default_dtype(torch.float32)
torch.set_grad_enabled(True)
torch.set_autocast_enabled('cpu', False)
torch.set_default_device(None)
torch.use_deterministic_algorithms(False)
torch.set_float32_matmul_precision('highest')
torch.backends.mkldnn.matmul.fp32_precision = 'none'
torch.backends.mkldnn.enabled = True
torch.set_flush_denormal(False)
np.seterr(divide='warn', over='warn', under='ignore', invalid='warn')
"""
GAME = """
import os
import numpy as np
import torch
from rookery.games import gridworld as grid

class Rude(grid.GridGame):
    map = "PP......"

    def declare(self):
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})
        if os.environ.get("CHANGE"):
            exec(os.environ["CHANGE"])

    def begin_round(self, number):
        if os.environ.get("CHANGE"):
            exec(os.environ["CHANGE"])
"""
PROBE = """
import numpy as np
import torch

def ask(players, game):
    {}
    return {{"x": game.play(players, episodes=2).returns.mean()}}
"""


def state() -> tuple[Any, ...]:
    return _read(), _modes(), torch.is_inference_mode_enabled(), np.geterr()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    exec(BACK)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("plain") / "run"
    return rookery.train("treasurehunt", run=folder, **SMALL).digest()["run"]


@pytest.mark.parametrize("name", [*CHANGES, *(f"within {name}" for name in SCOPES)])
def test_it_makes_no_difference_where_training_is_called_from(
    name: str, digest: str, tmp_path: Path
) -> None:
    within = SCOPES.get(name.removeprefix("within "), nullcontext)
    with within():
        exec(CHANGES.get(name, ""))
        before = state()

        run = rookery.train("treasurehunt", run=tmp_path / "run", **SMALL)

        assert state() == before
    assert run.digest()["run"] == digest


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_probe_changes_reaches_nothing_else(
    name: str, digest: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(PROBE.format(CHANGES[name]))
    probe = {"code": f"{tmp_path / 'mine.py'}:ask", "every_rounds": 1}
    before = state()

    run = rookery.train("treasurehunt", run=tmp_path / "run", probe=probe, **SMALL)

    assert state() == before
    assert run.digest()["run"] == digest


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A game that changes what it is told to, and the digest if that is nothing."""
    folder = tmp_path_factory.mktemp("rude")
    (folder / "rude.py").write_text(GAME)
    name = f"{folder / 'rude.py'}:Rude"
    return name, rookery.train(name, run=folder / "run", **SMALL).digest()["run"]


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_game_changes_does_not_reach_our_arithmetic(
    name: str, game: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGE", CHANGES[name])
    before = state()

    run = rookery.train(game[0], run=tmp_path / "run", **SMALL)

    assert state() == before
    assert run.digest()["run"] == game[1]


@pytest.mark.processes
def test_nor_does_it_where_the_actor_is_a_process_of_its_own(
    game: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [change for name, change in CHANGES.items() if name != "old precision"]
    monkeypatch.setenv("CHANGE", "\n".join(every))
    probe = tmp_path / "mine.py"
    probe.write_text(PROBE.format("; ".join(every)))
    settings = SMALL | {"probe": {"code": f"{probe}:ask", "every_rounds": 1}}

    result = {
        workers: rookery.train(
            game[0], run=tmp_path / f"{workers}", **(settings | {"workers": workers})
        )
        for workers in (0, 1)
    }

    assert [run.digest()["run"] for run in result.values()] == [game[1]] * 2
    assert result[0].probes().equals(result[1].probes())


NETWORK = """
import os
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.last = nn.LazyLinear(spec.num_actions)
        exec(os.environ.get("CHANGE", ""))

    def forward(self, parts):
        rows = [part.flatten(1) for part in parts.values()]
        result = self.last(torch.cat(rows, dim=1))
        exec(os.environ.get("CHANGE", ""))
        return result
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """Settings with a network that changes what it is told to; the digest if nothing."""
    folder = tmp_path_factory.mktemp("network")
    (folder / "net.py").write_text(NETWORK)
    settings = SMALL | {"agents": {"0": {"algorithm": f"{folder / 'net.py'}:Net"}}}
    run = rookery.train("treasurehunt", run=folder / "run", **settings)
    return settings, run.digest()["run"]


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_network_of_ones_own_changes_ends_with_each_call(
    name: str,
    network: tuple[dict[str, Any], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHANGE", CHANGES[name])

    run = rookery.train("treasurehunt", run=tmp_path / "run", **network[0])

    assert run.digest()["run"] == network[1]


def test_a_trained_agent_acts_the_same_wherever_it_is_asked(tmp_path: Path) -> None:
    run = rookery.train("treasurehunt", run=tmp_path / "run", **SMALL)
    plain = rookery.play("treasurehunt", run.players(), episodes=3, game=SMALL["game"])

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(2)
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        before = state()
        match = rookery.play("treasurehunt", run.players(), episodes=3, game=SMALL["game"])
        assert state() == before

    assert match.returns.tolist() == plain.returns.tolist()


def test_looking_at_the_state_costs_microseconds() -> None:
    def look() -> None:
        with standard_state():
            pass

    look()
    assert min(timeit.repeat(look, number=200, repeat=5)) / 200 < 100e-6
