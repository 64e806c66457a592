"""Tests that start a whole cluster run if they are asked for: they take minutes."""

from __future__ import annotations

import os

import pytest

with_clusters = pytest.mark.skipif(
    "ROOKERY_CLUSTERS" not in os.environ,
    reason="starts a real cluster: set ROOKERY_CLUSTERS=1",
)
