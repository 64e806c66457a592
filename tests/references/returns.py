"""Returns, one row at a time (Sutton and Barto, 2018, section 7.1), and shaped rewards."""

# ruff: noqa: RUF002 (formulas have the letters of the papers)

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.references.experience import Experience, Row


@dataclass(frozen=True)
class Transition:
    """From a row in which an agent acted to the row from which its target bootstraps."""

    turn: int
    world: int
    action: int
    gain: float
    """R: the discounted rewards on the way."""
    gamma: float
    """The factor of the value of the closing row; 0 after `terminated`."""
    closes: int

    @property
    def row(self) -> tuple[int, int]:
        return self.turn, self.world


def transition(
    rows: list[Row], turn: int, world: int, n: int, gamma: float, per: str
) -> Transition | None:
    """Return the n-step transition that opens in a row; None: nothing opens or closes.

    G_t:t+n = R_t+1 + γ R_t+2 + … + γ^n V(S_t+n), where an agent's n counts the rows in
    which it is active. γ is applied once per turn, or once per own step. An episode that
    terminates has no value after it; one that is truncated has that of its closing row.
    """
    if not rows[turn].active:
        return None
    gain, weight, own, here = 0.0, 1.0, 0, turn
    while here + 1 < len(rows):
        row, here = rows[here], here + 1
        gain += weight * row.reward
        if per == "turn" or rows[here].active or row.ends:
            weight *= gamma
        own += rows[here].active
        if row.ends or own == n:
            after = 0.0 if row.terminated else weight
            return Transition(turn, world, rows[turn].action, gain, after, here)
    return None


def shape(reward: float, settings) -> float:
    """Return a reward scaled, then clipped."""
    scaled = reward * settings.scale
    if settings.clip is not None:
        scaled = max(-settings.clip, min(settings.clip, scaled))
    return scaled


def factor_of(experience: Experience) -> float:
    """Return the scale of returns: 1 over the standard deviation of all rewards so far."""
    settings = experience.agent.settings.reward
    if not settings.standardise:
        return 1.0
    rewards = [shape(row.reward, settings) for rows in experience.worlds for row in rows]
    return 1.0 / max(float(np.std(rewards)), 1e-6)


def transitions(experience: Experience, n: int) -> list[Transition]:
    """Return the usable transitions, in the order of turns, then worlds.

    They opened in the window of the newest `capacity` rows, and have closed.
    """
    settings, usable = experience.agent.settings, []
    worlds = [[_shaped(row, settings.reward) for row in rows] for rows in experience.worlds]
    for turn in range(max(0, experience.boundary - experience.window), experience.boundary):
        for world, rows in enumerate(worlds):
            each = transition(
                rows, turn, world, n, settings.discount, settings.discount_per
            )
            if each is not None:
                usable.append(each)
    return usable


def _shaped(row: Row, settings) -> Row:
    return Row(**{**vars(row), "reward": shape(row.reward, settings)})
