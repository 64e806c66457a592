"""Batches of runs that can be interrupted: finished runs are recorded and not repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Job = tuple[Any, ...]


def rookery(*arguments: object, checkout: Path | None = None) -> dict[str, Any]:
    """Run a `rookery` command and return the JSON it prints.

    Args:
        arguments: of the command.
        checkout: the folder of the code to run, by default what is installed.
    """
    # Without -P, the code in the current folder would come before all other.
    command = [sys.executable, "-P", "-m", "rookery", *map(str, arguments), "--json"]
    environment = {} if checkout is None else {"PYTHONPATH": str(checkout)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | environment
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def overrides(settings: dict[str, Any]) -> list[str]:
    """Return settings as arguments of the command line."""
    return [f"{key}={value}" for key, value in settings.items()]


def read_finished(path: Path) -> list[dict[str, Any]]:
    """Return the results of finished runs."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def run_all(
    jobs: Iterable[Job],
    names: Sequence[str],
    run: Callable[..., dict[str, Any]],
    path: Path,
    parallel: int,
) -> list[dict[str, Any]]:
    """Run the jobs that are not finished yet; return the results of all.

    Args:
        jobs: tuples of arguments for `run`.
        names: the names of these arguments in the results.
        run: runs one job and returns its metrics.
        path: file with one line per finished job.
        parallel: how many jobs run at the same time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    finished = {tuple(x[name] for name in names) for x in read_finished(path)}
    left = [job for job in jobs if job not in finished]
    with ThreadPoolExecutor(parallel) as pool:
        futures = {pool.submit(run, *job): job for job in left}
        for number, future in enumerate(as_completed(futures), 1):
            result = dict(zip(names, futures[future], strict=True)) | future.result()
            with path.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{number} of {len(left)}: {result}", flush=True)
    return read_finished(path)
