"""Draws the pictures of docs/games: a moment of each game, and its Schelling diagram.

python experiments/diagrams.py FOLDER [GAME …]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import rookery
from rookery.evaluation.images import write_png

MOMENTS = {
    "cleanup": (["cleaner", "cleaner", "eater", "eater"], 42),
    "gambling": (["safe", "risky"], 12),
    "harvest": (["sharer", "sharer", "eater", "eater"], 14),
    "staghunt": (["stag_hunter", "stag_hunter"], 5),
    "tag": (["sprinter", "sprinter", "idler"], 20),
}
"""Who plays, and the turn that is shown."""
DILEMMAS = {
    "cleanup": ("cleaner", "eater"),
    "harvest": ("sharer", "eater"),
    "staghunt": ("stag_hunter", "hare_hunter"),
}
"""Who cooperates, and who does not."""


def main() -> None:
    """Draw the pictures of some games, by default of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("games", nargs="*", default=list(MOMENTS))
    words = parser.parse_args()
    for game in words.games:
        seats, turn = MOMENTS[game]
        match = rookery.play(game, seats, film=1, seed=1)
        write_png(words.folder / f"{game}.png", match.recordings[0].film()[turn])
        if game in DILEMMAS:
            found = rookery.schelling(game, *DILEMMAS[game])
            found.draw(words.folder / f"schelling-{game}.png")
            print(f"{game}\n{found}")


if __name__ == "__main__":
    main()
