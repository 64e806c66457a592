"""Whether schedules change what is learned: sync, pipelined and async over paired seeds.

    python experiments/learning.py --out FOLDER [--part hunt|stag] [--seconds 1500]

`hunt`: what agents score in treasurehunt after a short training. `stag`: the share of seeds
that end in stag, in a stag hunt that ends in stag about as often as in hare.

FOLDER/runs.jsonl gets a line per finished run, and what is there is not run again: stop it
at any time and go on later. One folder belongs to one state of the code.
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
SIDE_BY_SIDE = (("sync", "pipelined"), ("async",))
"""Without workers, sync and pipelined give the same bits and need one core each. Async is
real only with processes, which need both."""
TOLERATED = -0.05
"""How much less than with sync agents may score."""
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
"""A stag is worth 4 for two and nothing alone; a hare 1.6 beside a stag hunter, else 1.
Chosen with sync alone, which then ends in stag with about 6 of 10 seeds."""
GAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "hunt": ("treasurehunt", {"game": {}}),
    "stag": ("iterated_stag_hunt", STAG_HUNT),
}

console = Console()
Scores = dict[str, dict[int, float]]
"""Schedule to seed to score."""


@dataclass(frozen=True)
class Job:
    """One run to be trained and judged."""

    part: str
    schedule: str
    seed: int
    rounds: int
    episodes: int


class Sizes(NamedTuple):
    """How much is run of a part."""

    seeds: int
    rounds: int
    episodes: int


def score_of(job: Job) -> dict[str, Any]:
    """Train, play greedily, and return what became of it."""
    import rookery  # here, because main needs no torch

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
            **settings["game"],
        )
    found = {"score": match.summary()["mean"]}
    if job.part == "stag":
        found["stag"] = float(np.mean([e.counts["stag"] / e.turns for e in match.episodes]))
    return {**asdict(job), **found, "seconds": time.perf_counter() - started}


# Running.


def batches(part: str, sizes: Sizes) -> Iterator[list[Job]]:
    """Yield runs that may go side by side, all schedules of a seed before the next seed."""
    for seed in range(sizes.seeds):
        for schedules in SIDE_BY_SIDE:
            yield [Job(part, schedule, seed, *sizes[1:]) for schedule in schedules]


def read_finished(path: Path) -> dict[Job, dict[str, Any]]:
    """Return the lines of runs that are finished."""
    if not path.exists():
        return {}
    every = path.read_text("utf-8").splitlines(keepends=True)
    lines = [json.loads(line) for line in every if line[-1] == "\n"]
    if len(lines) < len(every):  # a crash cut the last off; the next must not join it
        path.write_text("".join(every[:-1]), "utf-8")
    names = [field.name for field in fields(Job)]
    return {Job(**{name: line[name] for name in names}): line for line in lines}


def run_all(parts: Mapping[str, Sizes], path: Path, until: float) -> dict[Job, Any]:
    """Run what is not finished, until the time is up; return all that is."""
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
                console.print(told(line, number, len(left)), highlight=False)
    return finished


def told(line: Mapping[str, Any], number: int, batches: int) -> str:
    """Return a run in one line."""
    about = f"{line['part']} {line['schedule']:9} seed {line['seed']:2}"
    return f"{about} {line['score']:7.1f} {line['seconds']:4.0f} s ({number} of {batches})"


def scores_of(finished: Mapping[Job, Any], part: str, sizes: Sizes, key: str) -> Scores:
    """Return what every seed brought; only seeds that all schedules have finished."""
    wanted = [job for batch in batches(part, sizes) for job in batch]
    found: Scores = {schedule: {} for schedule in SCHEDULES}
    for job in wanted:
        if job in finished:
            found[job.schedule][job.seed] = finished[job][key]
    common = set.intersection(*(set(seeds) for seeds in found.values()))
    return {
        name: {s: x for s, x in own.items() if s in common} for name, own in found.items()
    }


# Comparing.


def compare_scores(scores: Scores) -> dict[str, Any]:
    """Return scores with intervals, and how they differ from those of sync."""
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
        about = {"mean": mean, "lower_bound": bound, "holds": bound > TOLERATED}
        report["differences"][f"{name} - sync"] = about
    return report


def compare_shares(shares: Scores) -> dict[str, Any]:
    """Return how many seeds ended in stag, and whether schedules differ in it."""
    report: dict[str, Any] = {"shares": shares, "schedules": {}, "differences": {}}
    hits = {name: sum(x > 0.5 for x in own.values()) for name, own in shares.items()}
    count = len(shares["sync"])
    for name, stags in hits.items():
        about = {"stag": stags, "seeds": count, "share": stags / count}
        report["schedules"][name] = {**about, "interval": wilson(stags, count)}
    for name in SCHEDULES[1:]:
        low, high = share_difference(hits[name], count, hits["sync"], count)
        about = {"interval": [low, high], "holds": low <= 0.0 <= high}
        about["mean"] = (hits[name] - hits["sync"]) / count
        report["differences"][f"{name} - sync"] = about
    return report


# Showing.


def show_scores(report: Mapping[str, Any]) -> None:
    """Print every seed's score, and what they come to."""
    scores, own = report["scores"], [report["schedules"][name] for name in SCHEDULES]
    console.print(f"\n[bold]treasurehunt[/], mean return, {len(scores['sync'])} seeds")
    rows = [[f"seed {s}", *(scores[n][s] for n in SCHEDULES)] for s in scores["sync"]]
    rows.append(["mean", *(one["mean"] for one in own)])
    rows.append(["interquartile mean", *(one["iqm"] for one in own)])
    bounds = ["{:.1f} – {:.1f}".format(*one["interval"]) for one in own]
    show_table(("", *SCHEDULES), [*rows, ["its 95 % interval", *bounds]])
    for name, found in report["differences"].items():
        bound = f"{found['mean']:+.1%} of sync's mean, at least {found['lower_bound']:+.1%}"
        show_verdict(f"{name}: {bound} (wanted: {TOLERATED:+.0%})", found["holds"])


def show_shares(report: Mapping[str, Any]) -> None:
    """Print how often each schedule ended in stag."""
    console.print("\n[bold]stag hunt[/], share of seeds that end in stag")
    rows = []
    for name, one in report["schedules"].items():
        seen = f"{one['stag']} of {one['seeds']}"
        interval = "{:.0%} – {:.0%}".format(*one["interval"])
        rows.append([name, seen, f"{one['share']:.0%}", interval])
    show_table(("schedule", "stag", "share", "95 % interval"), rows)
    for name, found in report["differences"].items():
        interval = "{:+.0%} to {:+.0%}".format(*found["interval"])
        said = f"{name}: {found['mean']:+.0%}, probably {interval} (wanted: 0 within)"
        show_verdict(said, found["holds"])


def show_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows of figures under titles."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, title in enumerate(titles):
        table.add_column(title, justify="right" if place else "left")
    for row in rows:
        table.add_row(*(x if isinstance(x, str) else f"{x:.1f}" for x in row))
    console.print(table)


def show_verdict(said: str, holds: bool) -> None:
    """Print whether something holds."""
    mark = "[green]holds[/]" if holds else "[red]does not hold[/]"
    console.print(f"{said}: {mark}", highlight=False, soft_wrap=True)


def main() -> None:
    """Run what is asked for, and report what there is."""
    words = parse()
    hunt = Sizes(words.seeds, words.rounds, words.episodes)
    stag = Sizes(words.stag_seeds, words.stag_rounds, 8)
    parts = {"hunt": hunt, "stag": stag}
    chosen = {words.part: parts[words.part]} if words.part else parts
    words.out.mkdir(parents=True, exist_ok=True)
    finished = run_all(chosen, words.out / "runs.jsonl", time.monotonic() + words.seconds)
    report: dict[str, Any] = {}
    scores = scores_of(finished, "hunt", hunt, "score")
    if len(scores["sync"]) > 1:  # one seed says nothing of others
        report["hunt"] = compare_scores(scores)
        show_scores(report["hunt"])
    shares = scores_of(finished, "stag", stag, "stag")
    if shares["sync"]:
        report["stag"] = compare_shares(shares)
        show_shares(report["stag"])
    (words.out / "report.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--part", choices=list(GAMES), help="only this part")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="then start no more runs"
    )
    for name, default in (("seeds", 10), ("rounds", 60), ("episodes", 50)):
        parser.add_argument(f"--{name}", type=int, default=default, help="of treasurehunt")
    for name, default in (("stag-seeds", 40), ("stag-rounds", 60)):
        parser.add_argument(f"--{name}", type=int, default=default, help="of the stag hunt")
    return parser.parse_args()


if __name__ == "__main__":
    main()
