"""What random and scripted players score in the games of a sweep.

Scores of different games are comparable only on a common scale: 0 is the score of random
players, 1 that of the best of the game's scripted players, each in all seats that agents
learn in. They play once per game and settings, with the same seed in the same games, and
what they scored is kept in the sweep's folder `references`. It can be deleted: computed
again, it is the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of, play_match
from rookery.games.registry import Entry, entries_by_name
from rookery.rng import Purpose, keyed_seed
from rookery.runs.run import is_named, trusted_entry
from rookery.storage.arrays import Damaged
from rookery.storage.summed_json import read_with_checksum, write_with_checksum
from rookery.sweeps.scores import Group, SweepScores

FOLDER = "references"
RANDOM = "random"
WORLDS = 16
SEED = 0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Reference:
    """The scores that others are normalised by."""

    random: float
    scripted: float
    player: str
    """The best of the game's scripted players."""
    why: str = ""
    """Why scores cannot be normalised; '' if they can."""

    def normalise(self, scores: Any) -> Any:
        """Return scores on the scale from random (0) to scripted (1); NaN if there is none.

        Args:
            scores: a number or an array.
        """
        if self.why:
            return scores * nan
        return (scores - self.random) / (self.scripted - self.random)


def references_of(
    scores: SweepScores, named: Sequence[str] = (), say: Say = lambda line: None
) -> dict[str, Reference]:
    """Return the reference of every task, if there are several.

    Players play those that are not known yet. Scores of a single task need no reference.

    Args:
        scores: of the sweep.
        named: games that are not built in and that the user has named.
        say: called before players play.
    """
    groups: dict[str, Group] = {}
    if len(scores.tasks) <= 1:
        return {}
    for group in scores.groups:
        groups.setdefault(group.task, group)
    return {task: _reference(scores.folder, x, named, say) for task, x in groups.items()}


def _reference(folder: Path, group: Group, named: Sequence[str], say: Say) -> Reference:
    question = _question(group)
    path = folder / FOLDER / _file_name(group.game, question)
    means = _read(path, question)
    if means is None:
        try:
            entry = _entry(folder, group, named)
        except ConfigError as error:  # its code is not built in, and was not named
            return Reference(nan, nan, "", f"{group.task}: not normalised: {error}")
        say(f"{group.task}: random and scripted players play, once for this sweep …")
        means = _play(entry, resolve(group.tree, entry.settings))
        with suppress(ConfigError, OSError):  # someone else's folder: it is only kept
            path.parent.mkdir(exist_ok=True)
            write_with_checksum(path, {**question, "means": means})
    return _compare(group.task, means)


def _question(group: Group) -> dict[str, Any]:
    """Return all that decides what the players score, as plain data."""
    tree = group.tree
    agents: Mapping[str, Any] = tree.get("agents", {})
    evaluate: Mapping[str, Any] = tree.get("evaluate", {})
    question = {
        "game": tree["game"],
        "files": dict(group.files),
        "episodes": evaluate.get("episodes"),
        "turns": evaluate.get("turns"),
        "rounds": tree.get("rounds"),
        "players": {name: x["player"] for name, x in agents.items() if "player" in x},
        "worlds": WORLDS,
        "seed": SEED,
    }
    plain: dict[str, Any] = json.loads(json.dumps(question, default=str))
    return plain


def _file_name(game: str, question: Mapping[str, Any]) -> str:
    text = json.dumps(question, sort_keys=True)
    name = re.sub(r"\W+", "-", game.rpartition("/")[2]).strip("-")
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _read(path: Path, question: Mapping[str, Any]) -> dict[str, float] | None:
    """Return what was kept; None if players have to play (again)."""
    try:
        content = read_with_checksum(path)
    except Damaged:
        return None
    if content is None or {key: content.get(key) for key in question} != question:
        return None
    return content["means"]


def _entry(folder: Path, group: Group, named: Sequence[str]) -> Entry:
    same = [name for name in named if is_named(group.game, [name])]
    others = [name for name in named if group.game not in entries_by_name()]
    return trusted_entry(folder, group.tree, next(iter([*same, *others]), None))


def _play(entry: Entry, config: Config) -> dict[str, float]:
    """Return the mean return per agent and episode of each player in all seats.

    Agents that are scripted in training keep their player, as in evaluations.
    """
    seed = keyed_seed(SEED, Purpose.EVALUATION, 0)
    config = config.model_copy(update={"seed": seed, "worlds": WORLDS})
    specs, means = agents_of(entry, config), {}
    for name in entry.players:
        match = play_match(
            entry,
            config,
            [config.agent(spec.id).player or name for spec in specs],
            episodes=config.evaluate.episodes,
            round_number=config.rounds,
        )
        means[name] = float(match.summary()["mean"])
    return means


def _compare(task: str, means: Mapping[str, float]) -> Reference:
    scripted = {name: mean for name, mean in means.items() if name != RANDOM}
    low = means[RANDOM]
    if not scripted:
        return Reference(low, nan, "", f"{task}: not normalised: no scripted player")
    player = max(scripted, key=scripted.__getitem__)
    high, why = scripted[player], ""
    if not (isfinite(low) and isfinite(high) and high > low):
        why = (
            f"{task}: not normalised: no scripted player is better than random "
            f"({player} {high:.4g}, random {low:.4g})"
        )
    return Reference(low, high, player, why)
