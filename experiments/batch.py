"""Many runs one after the other: what is finished is written down, and not made again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Job = tuple[Any, ...]


def rookery(*words: object) -> dict[str, Any]:
    """Run a command of ours, and return what it prints."""
    command = [sys.executable, "-m", "rookery", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def words_of(settings: dict[str, Any]) -> list[str]:
    """Return settings as the command line takes them."""
    return [f"{key}={value}" for key, value in settings.items()]


def known(path: Path) -> list[dict[str, Any]]:
    """Return what is finished."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def carry_out(
    jobs: Iterable[Job],
    names: Sequence[str],
    run: Callable[..., dict[str, Any]],
    path: Path,
    at_once: int,
) -> list[dict[str, Any]]:
    """Do the jobs that are left, some at once; return everything that is finished.

    Args:
        jobs: tuples of arguments.
        names: under which these are written down.
        run: does one, and returns figures.
        path: of the lines.
        at_once: how many.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    have = {tuple(one[name] for name in names) for one in known(path)}
    left = [job for job in jobs if job not in have]
    with ThreadPoolExecutor(at_once) as pool:
        begun = {pool.submit(run, *job): job for job in left}
        for number, done in enumerate(as_completed(begun), 1):
            about = dict(zip(names, begun[done], strict=True)) | done.result()
            with path.open("a") as file:
                file.write(json.dumps(about) + "\n")
            print(f"{number} of {len(left)}: {about}", flush=True)
    return known(path)
