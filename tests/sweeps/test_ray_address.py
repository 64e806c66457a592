"""A Ray cluster that others may reach is used only with a token."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rookery.errors import ConfigError
from rookery.sweeps.ray_address import ray_address
from rookery.sweeps.ray_cells import check_ray

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 32}


def test_without_an_address_a_cluster_is_started_here() -> None:
    assert ray_address(None, {}) == "local"


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "localhost:6379", "[::1]:6379"])
def test_a_cluster_that_only_this_machine_reaches_needs_no_token(address: str) -> None:
    assert ray_address(address, {}) == address
    assert ray_address(None, {"RAY_ADDRESS": address}) == address


@pytest.mark.parametrize("address", ["10.0.0.7:6379", "head.example:6379", "auto"])
@pytest.mark.parametrize(
    "environment", [{}, {"RAY_AUTH_MODE": "token"}, {**TOKEN, "RAY_AUTH_MODE": ""}]
)
def test_a_cluster_that_others_may_reach_is_refused_without_a_token(
    address: str, environment: dict[str, str], tmp_path: Path
) -> None:
    home = {**environment, "HOME": str(tmp_path)}

    with pytest.raises(ConfigError, match="Ray runs the code of everyone who reaches it"):
        ray_address(address, home)
    with pytest.raises(ConfigError, match=r"\(from RAY_ADDRESS\) may be reached by others"):
        ray_address(None, {**home, "RAY_ADDRESS": address})


def test_with_a_token_it_is_used(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0" * 32)
    (tmp_path / "token").write_text("0" * 32)
    mode = {"RAY_AUTH_MODE": "token"}

    for environment in (
        TOKEN,
        {**mode, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")},
        {**mode, "HOME": str(tmp_path)},
    ):
        assert ray_address("10.0.0.7:6379", environment) == "10.0.0.7:6379"


@pytest.mark.parametrize("address", ["ray://10.0.0.7:10001", "10.0.0.7", "a b", "http://x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a Ray cluster"):
        ray_address(address, TOKEN)


def test_without_ray_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    with pytest.raises(
        ConfigError, match=r"^--on ray needs Ray: pip install 'rookery\[ray\]'$"
    ):
        check_ray(None)
