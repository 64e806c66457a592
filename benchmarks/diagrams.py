"""Draws the pictures of docs/games: a moment of each game, and its Schelling diagram.

python benchmarks/diagrams.py FOLDER [GAME …]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import rookery
from rookery.pictures import write_png

GAMES = {
    "cleanup": ("cleaner", "eater", 42),
    "harvest": ("sharer", "eater", 14),
    "staghunt": ("stag_hunter", "hare_hunter", 5),
}
"""Cooperator, defector, and the turn that is shown."""


def main() -> None:
    """Draw the pictures of some games, by default of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("games", nargs="*", default=list(GAMES))
    words = parser.parse_args()
    for game in words.games:
        cooperator, defector, turn = GAMES[game]
        seats = [cooperator, cooperator, defector, defector]
        agents = rookery.play(game, episodes=1).agents
        match = rookery.play(game, seats[: len(agents)], film=1, seed=1)
        write_png(words.folder / f"{game}.png", match.recordings[0].film()[turn])
        found = rookery.schelling(game, cooperator, defector)
        found.draw(words.folder / f"schelling-{game}.png")
        print(f"{game}\n{found}")


if __name__ == "__main__":
    main()
