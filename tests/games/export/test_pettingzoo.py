"""Rookery's games as PettingZoo environments, by PettingZoo's own tests and ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.test import parallel_api_test, parallel_seed_test

import rookery
from rookery.errors import ConfigError, GameError
from rookery.games import gridworld as grid
from rookery.games.registry import entries_by_name, find
from tests.paths import GAME_FILES

GAMES = list(entries_by_name())
SHORT = {"game.turns": 12}


class TestEveryBuiltInGame:
    @pytest.mark.parametrize("game", GAMES)
    def test_passes_the_tests_of_pettingzoo(self, game: str) -> None:
        env = rookery.to_pettingzoo(game, **SHORT)

        parallel_api_test(env, num_cycles=30)
        parallel_seed_test(lambda: rookery.to_pettingzoo(game, **SHORT), num_cycles=30)

        assert isinstance(env, ParallelEnv)
