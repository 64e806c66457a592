"""What the machines of a cluster compute with, from Python."""

from __future__ import annotations

import pytest

import rookery
from rookery.errors import ConfigError


def test_without_a_cluster_only_this_machine_is_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    found = rookery.nodes()

    assert found.nodes == []
    assert found.here["cores"] >= 1
    assert len(found.here["bits"]) == 64
    assert found.to_json() == {"here": found.here, "nodes": []}


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="address"):
        rookery.nodes(6379)  # type: ignore[arg-type]
