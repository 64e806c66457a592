"""Runs with very many agents: each has blocks, and each block two descriptors."""

from __future__ import annotations

import subprocess
import sys

TRAIN = """
import resource, sys
import rookery
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
settings = {"turns_per_round": 2, "worlds": 1, "rounds": 1, "workers": 0, "game.agents": 40}
try:
    run = rookery.train("treasurehunt", algorithm="tabular", run="run", **settings)
    print("trained", resource.getrlimit(resource.RLIMIT_NOFILE)[0] > soft)
except rookery.RookeryError as error:
    print(error)
"""


def train(folder: str, soft: int, hard: int) -> str:
    """Train 40 agents in a process with limits on its open files; return what it prints."""
    arguments = [sys.executable, "-W", "ignore", "-c", TRAIN, str(soft), str(hard)]
    result = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    assert not result.stderr
    return result.stdout


def test_a_run_raises_its_own_limit_of_open_files_if_the_system_allows_it(tmp_path):
    assert train(tmp_path, 60, 4096) == "trained True\n"


def test_more_agents_than_the_system_has_files_for_are_refused_in_one_line(tmp_path):
    line = train(tmp_path, 60, 100)

    assert line.startswith("the run needs ")
    assert line.endswith(
        "open files, about four per agent, but the system allows 100: train fewer agents, "
        "or raise the limit (`ulimit -Hn`).\n"
    )
    assert list(tmp_path.iterdir()) == []
