"""Cells on nodes that share no disk with the sweep; here the nodes are processes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.runs.claim import Claim, ClaimLost, is_held
from rookery.runs.run import Run
from rookery.stop import StopFlag, Stopped
from rookery.sweeps.axes import parse_words
from rookery.sweeps.cells import failures, is_done, saved_round
from rookery.sweeps.cluster import Lost, Node
from rookery.sweeps.host import CellHost, News, Task
from rookery.sweeps.plan import Plan
from rookery.sweeps.planning import new_plan
from rookery.sweeps.remote import RemoteSweep
from rookery.sweeps.tally import CannotStart
from rookery.sweeps.transfer import Changes, Piece
from rookery.sweeps.trust import Named
from tests.small import HUNT, overrides

pytestmark = pytest.mark.processes

SETTINGS = {**HUNT, "checkpoints.every_rounds": 1}
GAME = """
import helper
from rookery.games.builtin.treasurehunt import Treasurehunt

class Mine(Treasurehunt):
    turn_limit = helper.TURNS
"""


class LocalHost:
    """A cell in a child of this process."""

    def __init__(self, node: Node, task: Task) -> None:
        self.node, self.cell = node, CellHost()
        self.answer: News | Lost = self.cell.begin(task)
        self.is_over = False

    def stop(self) -> None:
        self.cell.stop()

    def lose(self) -> None:
        """Lose it as if its node was gone."""
        if not self.is_over:
            self.is_over = True
            self.cell._child.close()
            shutil.rmtree(self.cell._folder)
            os.close(self.cell._lock)
            self.answer = Lost("its node was lost")

    def end(self) -> None:
        self.lose()


class LocalCluster:
    """Nodes that are names only; all cells are trained by children of this process.

    Args:
        nodes: how many.
        change: called with every node and task; returns the task to send instead.
        meet: called with every reply; returns what arrives instead.
    """

    def __init__(
        self,
        nodes: int = 2,
        change: Callable[[Node, Task], Task] = lambda node, task: task,
        meet: Callable[[LocalHost, News], News | Lost] = lambda host, news: news,
    ) -> None:
        self._nodes = [Node(f"id-{i}", f"node {i}", 1.0) for i in range(nodes)]
        self._change, self._meet = change, meet
        self.hosts: list[LocalHost] = []
        self.sent: list[tuple[str, Task]] = []

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def start(self, node: Node, cpus: float, task: Task) -> LocalHost:
        assert sum(x.node is node and not x.is_over for x in self.hosts) == 0
        self.sent.append((node.name, task))
        self.hosts.append(LocalHost(node, self._change(node, task)))
        return self.hosts[-1]

    def replies(self, seconds: float) -> Iterator[tuple[LocalHost, News | Lost]]:
        for host in [host for host in self.hosts if not host.is_over]:
            reply, host.answer = host.answer, News()
            if not host.is_over:
                news = host.cell.news(0.2)
                host.is_over = news.code is not None
                reply = self._meet(host, news)
            yield host, reply


@pytest.fixture(scope="module")
def reference_digest(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return a function that gives the digest of an undisturbed run in this process."""

    def digest(game: str, **settings: Any) -> str:
        folder = tmp_path_factory.mktemp("reference") / "run"
        run = rookery.train(game, run=folder, progress=False, workers=0, **settings)
        return str(run.digest()["run"])

    return digest


class Quiet:
    is_live = False

    def show(self, running: Sequence[str], done: int) -> None:
        """Show nothing."""


def planned(folder: Path, *words: str, game: str = "treasurehunt", seeds: int = 1) -> Plan:
    question = parse_words(game, [*overrides(SETTINGS), *words], range(seeds))
    named = Named([game] if ":" in game else [])
    return new_plan(question, folder / "sweep", named)


def sweep(
    plan: Plan, cluster: LocalCluster, stop: StopFlag | None = None
) -> tuple[RemoteSweep, list[str]]:
    said: list[str] = []
    stop = stop or StopFlag()
    return RemoteSweep(plan, stop, Quiet(), said.append, said.append, cluster), said


def assert_undisturbed(plan: Plan, reference_digest: Callable[..., str]) -> None:
    for cell in plan.cells:
        digest = Run(cell.folder, cell.entry.name).digest()
        assert digest["exact"]
        assert digest["run"] == reference_digest(
            cell.entry.name, **{**SETTINGS, "seed": cell.seed}
        )
        assert not is_held(cell.folder)


def test_a_lost_cell_goes_on_elsewhere_from_what_has_arrived(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    lost: list[str] = []

    def lose_once(host: LocalHost, news: News) -> News | Lost:
        if news.changes.pieces and lost and lost[-1] != "lost":
            lost.append("lost")
            host.lose()
            return host.answer
        if not lost:
            lost.extend(x.path for x in news.changes.pieces if "manifest" in x.path)
        return news

    plan, cluster = planned(tmp_path, "rounds=30"), LocalCluster(1, meet=lose_once)
    training, said = sweep(plan, cluster)

    outcome = training.run()

    assert list(outcome.summaries) == ["seed-0"], said
    assert outcome.summaries["seed-0"]["run"] == str(plan.cells[0].folder)
    assert any("its node was lost; it is continued from round" in x for x in said)
    first, second = (task for _, task in cluster.sent)
    assert first.changes == Changes([], [])
    assert lost[0] in [piece.path for piece in second.changes.pieces]
    assert_undisturbed_rounds(plan, reference_digest, 30)


def assert_undisturbed_rounds(
    plan: Plan, reference_digest: Callable[..., str], rounds: int
) -> None:
    digest = Run(plan.cells[0].folder).digest()
    settings = {**SETTINGS, "rounds": rounds}
    assert digest["exact"]
    assert digest["run"] == reference_digest("treasurehunt", **settings)


def test_a_node_with_other_bits_takes_no_cell_and_is_named_once(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    def alter(node: Node, task: Task) -> Task:
        other = {**task.expected, "bits": "0" * 64}
        return replace(task, expected=other) if node.name == "node 0" else task

    plan, cluster = planned(tmp_path, seeds=3), LocalCluster(2, alter)
    training, said = sweep(plan, cluster)

    training.run()

    assert_undisturbed(plan, reference_digest)
    left_out = [line for line in said if "left out" in line]
    assert len(left_out) == 1
    assert left_out[0].startswith("node 0 is left out: it computes other bits than")
    assert [name for name, _ in cluster.sent].count("node 0") == 1


def test_if_no_node_is_like_this_machine_that_is_one_line(tmp_path: Path) -> None:
    def alter(node: Node, task: Task) -> Task:
        return replace(task, expected={**task.expected, "torch": "1.0"})

    plan, cluster = planned(tmp_path), LocalCluster(1, alter)
    training, said = sweep(plan, cluster)

    with pytest.raises(CannotStart, match="no node of the cluster can take cells"):
        training.run()

    assert "and this machine has torch" not in said[0]
    assert "node 0 is left out: it has torch" in said[0]
    assert not is_held(plan.cells[0].folder)


def test_cells_that_are_stopped_save_and_their_state_arrives(tmp_path: Path) -> None:
    stop = StopFlag()

    def stop_soon(host: LocalHost, news: News) -> News:
        if any("metrics" in piece.path for piece in news.changes.pieces):
            stop.signal = signal.SIGTERM
        return news

    plan = planned(tmp_path, "rounds=400", "checkpoints.every_rounds=0")
    training, _ = sweep(plan, LocalCluster(1, meet=stop_soon), stop)

    with pytest.raises(Stopped):
        training.run()

    (cell,) = plan.cells
    saved = saved_round(cell)
    assert 0 < saved < 400
    assert len((cell.folder / "metrics.jsonl").read_text().splitlines()) == saved
    assert not is_held(cell.folder)


def test_own_code_arrives_with_what_it_imports_and_a_failing_cell_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(GAME)
    (tmp_path / "helper.py").write_text("TURNS = 15\n")
    plan = planned(tmp_path, game="./mine.py:Mine", seeds=2)

    def spoil(node: Node, task: Task) -> Task:
        if not task.cell.endswith("seed-0"):
            return task
        files = {**task.files, "helper.py": (b"TURNS = 16\n", task.files["helper.py"][1])}
        return replace(task, files=files)

    training, _ = sweep(plan, LocalCluster(2, spoil))

    outcome = training.run()

    assert outcome.failed == failures(plan)
    assert outcome.failed == {
        "seed-0": "helper.py has not arrived as it was sent: try again."
    }
    assert [cell.name for cell in plan.cells if is_done(cell)] == ["seed-1"]
    assert Run(plan.cells[1].folder, "./mine.py:Mine").digest()["exact"]
    assert not list(tmp_path.glob("rookery-cell-*"))


def test_what_leads_out_of_the_folder_fails_the_cell_and_is_not_written(
    tmp_path: Path,
) -> None:
    def attack(host: LocalHost, news: News) -> News:
        return replace(news, changes=Changes([Piece("../../outside", 0, b"x")]))

    plan = planned(tmp_path)
    training, _ = sweep(plan, LocalCluster(1, meet=attack))

    outcome = training.run()

    assert (
        "'../../outside' has arrived, which is no file of a run" in outcome.failed["seed-0"]
    )
    assert not (tmp_path / "outside").exists()


def test_a_cell_that_another_process_has_taken_over_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_over(self: Claim) -> None:
        raise ClaimLost("another process has it")

    monkeypatch.setattr(Claim, "check", take_over)
    plan = planned(tmp_path)
    cluster = LocalCluster(1)
    training, said = sweep(plan, cluster)

    outcome = training.run()

    assert (outcome.summaries, outcome.failed) == ({}, {})
    assert said == ["seed 0: another process has it"]
    assert all(host.is_over for host in cluster.hosts)


def test_the_bits_of_a_node_do_not_depend_on_the_seed() -> None:
    from rookery.runs.configure import configure
    from rookery.sweeps.machine import bits_for

    bits = {
        bits_for(*configure("treasurehunt", overrides({**HUNT, "seed": seed})))
        for seed in (0, 7)
    }
    other = bits_for(*configure("treasurehunt", overrides({**HUNT, "network.width": 24})))

    assert len(bits) == 1
    assert other not in bits
