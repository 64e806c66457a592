"""Sweeps on a Ray cluster: nodes come and go; every cell has the bits of a local run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

import rookery
from rookery.runs.log import read_lines
from rookery.stop import UNFINISHED
from tests.ray_nodes import LOOPBACK, RayNodes
from tests.scenarios.conftest import wait_for
from tests.small import HUNT, overrides

pytestmark = [
    pytest.mark.processes,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        find_spec("ray") is None, reason="Ray is not installed: pip install 'rookery[ray]'"
    ),
]

LONG = {**HUNT, "algorithm": "ppo", "rounds": 200, "checkpoints.every_rounds": 2}
DASHBOARD_PORT = 8265
LONGEST = 250.0
"""Seconds after which something that must happen counts as not happening."""
UNLIKE = {"ATEN_CPU_CAPABILITY": "default"}
"""Makes torch on a node compute other bits, for example with PPO."""


class Sweeping:
    """`rookery sweep … --on ray` in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.sweep, self._said = folder / "sweep", folder / "said"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        with self._said.open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rookery", "sweep", *arguments, "--on", "ray"],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
                env=environment | LOOPBACK | {"COLUMNS": "1000"},
            )

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_for(self, condition: Callable[[], object]) -> None:
        wait_for(lambda: condition() or self.process.poll() is not None, LONGEST)
        assert self.process.poll() is None, self.said

    def rounds(self, cell: str) -> int:
        return len(read_lines(self.sweep / cell / "metrics.jsonl"))

    def code(self) -> int:
        return self.process.wait(LONGEST)

    def digest(self, cell: str) -> str:
        digest = rookery.Run(self.sweep / cell).digest()
        assert digest["exact"], digest
        return digest["run"]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayNodes]:
    with RayNodes() as cluster:
        yield cluster


@pytest.fixture
def nodes(cluster: RayNodes) -> Iterator[RayNodes]:
    yield cluster
    cluster.remove_all()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Sweeping]]:
    started: list[Sweeping] = []

    def start(*arguments: str) -> Sweeping:
        started.append(Sweeping(tmp_path, *arguments))
        return started[-1]

    yield start
    for sweeping in started:
        sweeping.close()


def planned(*words: str, **settings: object) -> list[str]:
    return ["treasurehunt", *overrides(settings), *words, "--run", "sweep"]


def trained_by(node: str) -> list[psutil.Process]:
    """Return the processes that train cells on a node, by the id of the node."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if "one_cell" in " ".join(process.info["cmdline"] or ()) and is_below(process, node)
    ]


def listening_at(process: psutil.Process) -> list[Any]:
    """Return the addresses at which a process listens."""
    try:
        connections = process.net_connections("inet")
    except psutil.NoSuchProcess:
        return []
    return [x.laddr for x in connections if x.status == psutil.CONN_LISTEN]


def is_below(process: psutil.Process, node: str) -> bool:
    return any(node in " ".join(parent.cmdline()) for parent in process.parents())


@pytest.mark.shows("E9")
def test_a_node_that_is_lost_costs_no_cell_and_one_with_other_bits_takes_none(
    nodes: RayNodes,
    start: Callable[..., Sweeping],
    reference_digest: Callable[..., str],
) -> None:
    _, lost = nodes.add(), nodes.add()
    unlike = nodes.add(**UNLIKE)
    words = ["seeds=0..2", "learning_rate=1e-4"]

    sweeping = start(*planned(*words, **LONG), "--ray-address", nodes.address)
    sweeping.wait_for(lambda: "is left out" in sweeping.said)
    sweeping.wait_for(lambda: sum(sweeping.rounds(f"seed-{i}") > 10 for i in range(3)) > 1)
    nodes.remove(lost)
    code = sweeping.code()

    assert code == 0, sweeping.said
    left_out = re.findall(r"^node \S+ \((\w+)\) is left out: (.*)", sweeping.said, re.M)
    assert [(node, unlike[:8]) for node, _ in left_out] == [(unlike[:8], unlike[:8])]
    assert left_out[0][1].startswith("it computes other bits ")
    assert re.search(r"it is continued from round [1-9]", sweeping.said)
    settings = {**LONG, "learning_rate": 1e-4}
    for seed in range(3):
        expected = reference_digest("treasurehunt", **{**settings, "seed": seed})
        assert sweeping.digest(f"seed-{seed}") == expected


def test_a_process_that_is_killed_takes_its_child_along_and_the_cell_goes_on(
    nodes: RayNodes,
    start: Callable[..., Sweeping],
    reference_digest: Callable[..., str],
) -> None:
    node = nodes.add()

    sweeping = start(*planned(**LONG), "--ray-address", nodes.address)
    sweeping.wait_for(lambda: sweeping.rounds("seed-0") > 10)
    (child,) = trained_by(node)
    psutil.Process(child.ppid()).kill()
    psutil.wait_procs([child], LONGEST)
    code = sweeping.code()

    assert not child.is_running()
    assert code == 0, sweeping.said
    assert "it is continued from round" in sweeping.said
    assert sweeping.digest("seed-0") == reference_digest("treasurehunt", **LONG)


def test_a_cluster_of_its_own_ends_with_the_sweep_which_goes_on_exactly(
    start: Callable[..., Sweeping], reference_digest: Callable[..., str]
) -> None:
    sweeping = start(*planned("seeds=0..1", **LONG))
    sweeping.wait_for(lambda: all(sweeping.rounds(f"seed-{i}") > 10 for i in (0, 1)))
    children = psutil.Process(sweeping.process.pid).children(recursive=True)
    listening = {address for process in children for address in listening_at(process)}

    sweeping.process.send_signal(signal.SIGTERM)

    assert sweeping.code() == UNFINISHED, sweeping.said
    assert "--on ray" in sweeping.said.splitlines()[-1]
    assert psutil.wait_procs(children, LONGEST)[1] == []
    again = start("go", "sweep")
    assert again.code() == 0, again.said
    for seed in (0, 1):
        expected = reference_digest("treasurehunt", **{**LONG, "seed": seed})
        assert again.digest(f"seed-{seed}") == expected
    assert listening
    assert {address.ip for address in listening} <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert DASHBOARD_PORT not in {address.port for address in listening}


def test_nodes_shows_versions_and_bits_of_every_node(nodes: RayNodes) -> None:
    good, unlike = nodes.add(), nodes.add(**UNLIKE)

    done = subprocess.run(
        [sys.executable, "-m", "rookery", "nodes", nodes.address, "--json"],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        env=os.environ | LOOPBACK,
    )

    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    by_node = {node["node"].split("(")[1][:8]: node for node in shown["nodes"]}
    assert by_node.keys() == {good[:8], unlike[:8]}
    assert by_node[good[:8]]["bits"] == shown["here"]["bits"]
    assert by_node[good[:8]]["why"] == ""
    assert by_node[unlike[:8]]["bits"] != shown["here"]["bits"]
    assert "it computes other bits" in by_node[unlike[:8]]["why"]


def test_a_cluster_that_does_not_answer_is_one_line(start: Callable[..., Sweeping]) -> None:
    sweeping = start(*planned(**LONG), "--ray-address", "127.0.0.1:1")

    assert sweeping.code() == 2
    assert sweeping.said.splitlines()[-1].startswith("error: cannot reach 127.0.0.1:1: ")
