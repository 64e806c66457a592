"""Gambling: what each deck pays, loses, and brings in the mean."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.games.builtin.gambling import Gambling

DECKS = {
    "a": (1, 1, "left"),
    "b": (1, 7, "right"),
    "c": (7, 1, "left"),
    "d": (7, 7, "right"),
}
WORLDS, TURNS = 400, 25


def cards(board, deck, **settings):
    """Return many cards of one deck."""
    row, column, way = DECKS[deck]
    game = board(Gambling, worlds=WORLDS, agents=1, turns=10_000, **settings)
    game.place(0, row, column + (1 if way == "left" else -1))
    return np.concatenate([game.turn(way).rewards for _ in range(TURNS)]).ravel()


@pytest.mark.shows("H3")
@pytest.mark.parametrize(
    ("deck", "gain", "mean", "odds"),
    [
        ("a", 1.0, -0.25, 0.5),
        ("b", 1.0, -0.25, 0.1),
        ("c", 0.5, 0.25, 0.5),
        ("d", 0.5, 0.25, 0.1),
    ],
)
def test_cards_of_a_deck_have_its_gain_and_mean(board, deck, gain, mean, odds):
    rewards = cards(board, deck)

    loss = (gain - mean) / odds
    assert sorted(set(rewards.tolist())) == pytest.approx([gain - loss, gain])
    spread = loss * np.sqrt(odds * (1 - odds))
    assert abs(rewards.mean() - mean) < 5 * spread / np.sqrt(len(rewards))
    assert abs(rewards.std() - spread) < 0.1 * spread


def test_decks_that_rarely_lose_are_riskier(board):
    spreads = {deck: cards(board, deck).std() for deck in DECKS}

    assert spreads["b"] > spreads["a"] > spreads["c"]
    assert spreads["d"] > spreads["c"]


def test_gains_means_and_odds_are_settings(board):
    rewards = cards(board, "d", good_gain=2.0, good_mean=1.0, seldom=0.2)

    assert sorted(set(rewards.tolist())) == pytest.approx([-3.0, 2.0])


def test_draws_are_counted_by_deck_and_the_card_is_observed(board):
    game = board(Gambling, agents=1)
    game.place(0, 1, 2)

    outcome = game.turn("left")
    game.turn()

    assert outcome.counts["draws_a"].tolist() == [[1]]
    assert outcome.counts["draws_b"].tolist() == [[0]]
    assert game.seen[0]["self"].tolist() == outcome.rewards.tolist()
    assert game.spot(0) == (1, 2)


def test_an_agent_that_draws_nothing_gets_nothing(board):
    game = board(Gambling, agents=1)
    game.place(0, 4, 4)

    assert game.turn("left").rewards.tolist() == [[0]]


@pytest.mark.parametrize(("player", "decks"), [("safe", "cd"), ("risky", "ab")])
def test_players_draw_from_the_decks_they_prefer(player, decks):
    match = rookery.play("gambling", player, episodes=4, game={"turns": 40})

    drawn = {
        deck: sum(e.counts[f"draws_{deck}"].sum() for e in match.episodes)
        for deck in "abcd"
    }
    assert {deck for deck, count in drawn.items() if count} <= set(decks)
    assert sum(drawn.values()) > 100


def test_safe_players_win_and_risky_ones_lose():
    safe, risky = (
        rookery.play("gambling", player, episodes=32) for player in ("safe", "risky")
    )

    assert safe.returns.mean() > 10
    assert risky.returns.mean() < -10
    assert risky.returns.std() > safe.returns.std()
