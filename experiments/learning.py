"""Whether the schedule changes what is learned: sync, pipelined and async, paired by seed.

    python experiments/learning.py --out FOLDER [--part hunt|stag] [--seconds 1500]

`hunt`: the score in treasurehunt after a short training. `stag`: the share of seeds that
end in stag, in a stag hunt that ends in stag about as often as in hare.

FOLDER/runs.jsonl gets a line per finished run. Finished runs are not repeated, so the
script can be interrupted and restarted at any time. Use a new folder for every version of
the code.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from comparisons import relative_difference, share_difference, wilson
from rich.console import Console
from rich.table import Table

from rookery.studies.statistics import bootstrap, interquartile_mean

SCHEDULES = ("sync", "pipelined", "async")
PARALLEL = (("sync", "pipelined"), ("async",))
"""Sync and pipelined give the same bits without workers and need one core each. Async is
only real with several processes, which need both cores."""
TOLERATED = -0.05
"""The largest acceptable loss against sync, as a share of its score."""
EVALUATION_SEED = 1_000_003
STAG_HUNT = {
    "game": {"turns": 20, "both_second": 1.0, "tempted": 1.6},
    "turns_per_round": 10,
    "worlds": 4,
    "frames": 1,
    "n_step": 1,
    "discount": 0.5,
    "batch_size": 32,
    "learning_rate": 2e-3,
    "updates_per_round": 5,
    "network": {"width": 16, "quantiles": 4},
    "epsilon": {"steps": 1500},
    "replay": {"warmup": 80, "capacity": 2000},
}
"""A stag is worth 4 to two hunters and nothing to one; a hare is worth 1.6 next to a stag
hunter, else 1. Tuned with sync only, which ends in stag in about 6 of 10 seeds."""
GAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "hunt": ("treasurehunt", {"game": {}}),
    "stag": ("iterated_stag_hunt", STAG_HUNT),
}

console = Console()
Scores = dict[str, dict[int, float]]
"""Schedule to seed to score."""


@dataclass(frozen=True)
class Job:
    """One run to train and evaluate."""

    part: str
    schedule: str
    seed: int
    rounds: int
    episodes: int


class Sizes(NamedTuple):
    """The size of a part."""

    seeds: int
    rounds: int
    episodes: int


def score_of(job: Job) -> dict[str, Any]:
    """Train a run, play greedily, and return the scores."""
    import rookery  # imported late, because main does not need torch

    game, settings = GAMES[job.part]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = rookery.train(
            game,
            run=Path(folder) / "run",
            rounds=job.rounds,
            schedule=job.schedule,
            seed=job.seed,
            workers=1 if job.schedule == "async" else 0,
            **settings,
        )
        match = rookery.play(
            game,
            run.players(),
            episodes=job.episodes,
            seed=EVALUATION_SEED,
            game=settings["game"],
        )
    scores = {"score": match.summary()["mean"]}
    if job.part == "stag":
        scores["stag"] = float(
            np.mean([e.counts["stag"] / e.turns for e in match.episodes])
        )
    return {**asdict(job), **scores, "seconds": time.perf_counter() - started}


# Running.


def batches(part: str, sizes: Sizes) -> Iterator[list[Job]]:
    """Yield runs that can run in parallel, all schedules of a seed before the next seed."""
    for seed in range(sizes.seeds):
        for schedules in PARALLEL:
            yield [Job(part, schedule, seed, *sizes[1:]) for schedule in schedules]


def read_finished(path: Path) -> dict[Job, dict[str, Any]]:
    """Return the results of finished runs."""
    if not path.exists():
        return {}
    texts = path.read_text("utf-8").splitlines(keepends=True)
    lines = [json.loads(text) for text in texts if text[-1] == "\n"]
    if len(lines) < len(texts):  # a crash truncated the last; the next must not join it
        path.write_text("".join(texts[:-1]), "utf-8")
    names = [field.name for field in fields(Job)]
    return {Job(**{name: line[name] for name in names}): line for line in lines}


def run_all(parts: Mapping[str, Sizes], path: Path, until: float) -> dict[Job, Any]:
    """Run what is not finished until time is up; return the results of all."""
    finished = read_finished(path)
    todo = [batch for part, sizes in parts.items() for batch in batches(part, sizes)]
    left = [b for batch in todo if (b := [job for job in batch if job not in finished])]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool, path.open("a") as lines:
        for number, batch in enumerate(left, 1):
            if time.monotonic() > until:
                console.print(f"time is up: {len(left) - number + 1} batches are left")
                break
            for job, line in zip(batch, pool.map(score_of, batch), strict=True):
                finished[job] = line
                lines.write(json.dumps(line) + "\n")
                lines.flush()
                console.print(describe(line, number, len(left)), highlight=False)
    return finished


def describe(line: Mapping[str, Any], number: int, batches: int) -> str:
    """Return a line about a finished run."""
    run = f"{line['part']} {line['schedule']:9} seed {line['seed']:2}"
    return f"{run} {line['score']:7.1f} {line['seconds']:4.0f} s ({number} of {batches})"


def scores_of(finished: Mapping[Job, Any], part: str, sizes: Sizes, key: str) -> Scores:
    """Return the scores of the seeds that all schedules have finished."""
    jobs = [job for batch in batches(part, sizes) for job in batch]
    scores: Scores = {schedule: {} for schedule in SCHEDULES}
    for job in jobs:
        if job in finished:
            scores[job.schedule][job.seed] = finished[job][key]
    common = set.intersection(*(set(seeds) for seeds in scores.values()))
    return {
        name: {s: x for s, x in own.items() if s in common} for name, own in scores.items()
    }


# Comparing.


def compare_scores(scores: Scores) -> dict[str, Any]:
    """Return scores with intervals, and their difference from sync."""
    report: dict[str, Any] = {"scores": scores, "schedules": {}, "differences": {}}
    for name, own in scores.items():
        values = list(own.values())
        report["schedules"][name] = {
            "mean": float(np.mean(values)),
            "iqm": float(interquartile_mean(values)),
            "interval": bootstrap(values),
        }
    for name in SCHEDULES[1:]:
        pair = list(scores[name].values()), list(scores["sync"].values())
        mean, bound = relative_difference(*pair)
        difference = {"mean": mean, "lower_bound": bound, "holds": bound > TOLERATED}
        report["differences"][f"{name} - sync"] = difference
    return report


def compare_shares(shares: Scores) -> dict[str, Any]:
    """Return how many seeds ended in stag, and whether schedules differ."""
    report: dict[str, Any] = {"shares": shares, "schedules": {}, "differences": {}}
    hits = {name: sum(x > 0.5 for x in own.values()) for name, own in shares.items()}
    count = len(shares["sync"])
    for name, stags in hits.items():
        counts = {"stag": stags, "seeds": count, "share": stags / count}
        report["schedules"][name] = {**counts, "interval": wilson(stags, count)}
    for name in SCHEDULES[1:]:
        low, high = share_difference(hits[name], count, hits["sync"], count)
        difference = {"interval": [low, high], "holds": low <= 0.0 <= high}
        difference["mean"] = (hits[name] - hits["sync"]) / count
        report["differences"][f"{name} - sync"] = difference
    return report


# Showing.


def show_scores(report: Mapping[str, Any]) -> None:
    """Print the score of every seed, their means and the differences."""
    scores = report["scores"]
    summaries = [report["schedules"][name] for name in SCHEDULES]
    console.print(f"\n[bold]treasurehunt[/], mean return, {len(scores['sync'])} seeds")
    rows = [[f"seed {s}", *(scores[n][s] for n in SCHEDULES)] for s in scores["sync"]]
    rows.append(["mean", *(summary["mean"] for summary in summaries)])
    rows.append(["interquartile mean", *(summary["iqm"] for summary in summaries)])
    bounds = ["{:.1f} – {:.1f}".format(*summary["interval"]) for summary in summaries]
    show_table(("", *SCHEDULES), [*rows, ["95 % interval", *bounds]])
    for name, difference in report["differences"].items():
        mean, bound = difference["mean"], difference["lower_bound"]
        text = f"{name}: {mean:+.1%} of sync's mean, lower bound {bound:+.1%}"
        show_result(f"{text} (required: {TOLERATED:+.0%})", difference["holds"])


def show_shares(report: Mapping[str, Any]) -> None:
    """Print how often each schedule ended in stag."""
    console.print("\n[bold]stag hunt[/], share of seeds that end in stag")
    rows = []
    for name, summary in report["schedules"].items():
        count = f"{summary['stag']} of {summary['seeds']}"
        interval = "{:.0%} – {:.0%}".format(*summary["interval"])
        rows.append([name, count, f"{summary['share']:.0%}", interval])
    show_table(("schedule", "stag", "share", "95 % interval"), rows)
    for name, difference in report["differences"].items():
        interval = "{:+.0%} to {:+.0%}".format(*difference["interval"])
        text = f"{name}: {difference['mean']:+.0%}, 95 % interval {interval}"
        show_result(f"{text} (required: it contains 0)", difference["holds"])


def show_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for i, title in enumerate(titles):
        table.add_column(title, justify="right" if i else "left")
    for row in rows:
        table.add_row(*(x if isinstance(x, str) else f"{x:.1f}" for x in row))
    console.print(table)


def show_result(text: str, holds: bool) -> None:
    """Print a statement and whether it holds."""
    mark = "[green]holds[/]" if holds else "[red]does not hold[/]"
    console.print(f"{text}: {mark}", highlight=False, soft_wrap=True)


def main() -> None:
    """Run what is not finished, and report."""
    options = parse()
    hunt = Sizes(options.seeds, options.rounds, options.episodes)
    stag = Sizes(options.stag_seeds, options.stag_rounds, 8)
    parts = {"hunt": hunt, "stag": stag}
    selected = {options.part: parts[options.part]} if options.part else parts
    options.out.mkdir(parents=True, exist_ok=True)
    finished = run_all(
        selected, options.out / "runs.jsonl", time.monotonic() + options.seconds
    )
    report: dict[str, Any] = {}
    scores = scores_of(finished, "hunt", hunt, "score")
    if len(scores["sync"]) > 1:  # intervals need several seeds
        report["hunt"] = compare_scores(scores)
        show_scores(report["hunt"])
    shares = scores_of(finished, "stag", stag, "stag")
    if shares["sync"]:
        report["stag"] = compare_shares(shares)
        show_shares(report["stag"])
    (options.out / "report.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--part", choices=list(GAMES), help="only this part")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="start no runs after this"
    )
    for name, default in (("seeds", 10), ("rounds", 60), ("episodes", 50)):
        parser.add_argument(f"--{name}", type=int, default=default, help="of treasurehunt")
    for name, default in (("stag-seeds", 40), ("stag-rounds", 60)):
        parser.add_argument(f"--{name}", type=int, default=default, help="of the stag hunt")
    return parser.parse_args()


if __name__ == "__main__":
    main()
