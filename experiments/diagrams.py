"""Draw the pictures of docs/games: a scene of each game, and its Schelling diagram.

python experiments/diagrams.py FOLDER [GAME …]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import rookery
from rookery.evaluation.images import write_png

SCENES = {
    "cleanup": (["cleaner", "cleaner", "eater", "eater"], 42),
    "gambling": (["safe", "risky"], 12),
    "harvest": (["sharer", "sharer", "eater", "eater"], 14),
    "staghunt": (["stag_hunter", "stag_hunter"], 5),
    "tag": (["sprinter", "sprinter", "idler"], 20),
}
"""The players, and the turn that is shown."""
DILEMMAS = {
    "cleanup": ("cleaner", "eater"),
    "harvest": ("sharer", "eater"),
    "staghunt": ("stag_hunter", "hare_hunter"),
}
"""The cooperating player and the defecting one."""


def main() -> None:
    """Draw the pictures of the named games, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="where the pictures are written")
    parser.add_argument("games", nargs="*", default=list(SCENES), help="default: all")
    options = parser.parse_args()
    for game in options.games:
        seats, turn = SCENES[game]
        match = rookery.play(game, seats, film=1, seed=1)
        write_png(options.folder / f"{game}.png", match.recordings[0].film()[turn])
        if game in DILEMMAS:
            diagram = rookery.schelling(game, *DILEMMAS[game])
            diagram.draw(options.folder / f"schelling-{game}.png")
            print(f"{game}\n{diagram}")


if __name__ == "__main__":
    main()
