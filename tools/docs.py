"""Write the generated pages of the docs, or check that they are up to date.

    python tools/docs.py            # also: make docs
    python tools/docs.py --check    # exit code 1 if a page is out of date

The picture of the tiles is compared by its pixels, since PNG files can differ.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from api_page import write_api
from PIL import Image
from settings_page import write_settings
from tiles_page import draw_tiles, write_tiles

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    "settings.md": write_settings,
    "api.md": write_api,
    "tiles.md": write_tiles,
}
TILES = "pictures/tiles.png"


def outdated(docs: Path = DOCS) -> list[str]:
    """Return the generated files that are missing or out of date."""
    pages = [
        name
        for name, write in PAGES.items()
        if not (docs / name).is_file() or (docs / name).read_text() != write()
    ]
    return pages if _same_picture(docs / TILES) else [*pages, TILES]


def _same_picture(path: Path) -> bool:
    if not path.is_file():
        return False
    old, new = (np.asarray(Image.open(x)) for x in (path, io.BytesIO(draw_tiles())))
    # Another version of Pillow draws letters a little differently.
    return old.shape == new.shape and np.abs(old.astype(int) - new).mean() < 2


def main() -> None:
    """Write all pages, or check them."""
    if "--check" in sys.argv[1:]:
        names = outdated()
        print("\n".join(f"out of date: docs/{name}" for name in names) or "up to date")
        sys.exit(bool(names))
    for name, write in PAGES.items():
        (DOCS / name).write_text(write())
        print(f"docs/{name}")
    if not _same_picture(DOCS / TILES):
        (DOCS / TILES).write_bytes(draw_tiles())
        print(f"docs/{TILES}")


if __name__ == "__main__":
    main()
