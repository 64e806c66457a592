"""Folders of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rookery"
EXPERIMENTS = ROOT / "experiments"
GAME_FILES = ROOT / "tests" / "games" / "files"
RUN_FIXTURES = ROOT / "tests" / "fixtures"
