"""Which Ray cluster to use, and whether that is safe.

Ray runs the code of everyone who reaches a cluster. So a cluster that others may reach must
ask for a token, and so must one that we start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rookery.errors import ConfigError

LOCAL = "local"
"""The address of a cluster that is started here, and ended again."""
ADDRESS, MODE, TOKEN = "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"
_HERE = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?")
_HOST_AND_PORT = re.compile(r"[\w.\[\]:-]+:\d{1,5}")


def ray_address(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the address of the cluster to use.

    Args:
        given: by the user; None for that in the environment, or else a local cluster.
        environment: of this process.

    Raises:
        ConfigError: if it is none, or others may reach the cluster without a token.
    """
    address = given or environment.get(ADDRESS) or LOCAL
    source = "" if given else f" (from {ADDRESS})"
    if address == LOCAL or _HERE.fullmatch(address):
        return address
    if address != "auto" and not _HOST_AND_PORT.fullmatch(address):
        raise ConfigError(
            f"{address!r:.80}{source} is not the address of a Ray cluster: write "
            "HOST:PORT, such as 10.0.0.7:6379."
        )
    if not has_token(environment):
        raise ConfigError(
            f"{address}{source} may be reached by others, and Ray runs the code of "
            f"everyone who reaches it: start the cluster with {MODE}=token, and set "
            f"{MODE}=token and {TOKEN} here."
        )
    return address


def has_token(environment: Mapping[str, str]) -> bool:
    """Whether Ray finds a token to show, and to ask for."""
    if environment.get(MODE) != "token":
        return False
    if environment.get(TOKEN):
        return True
    path = environment.get(TOKEN_PATH)
    file = Path(path) if path else Path(environment.get("HOME", "/")) / ".ray/auth_token"
    return file.is_file()
