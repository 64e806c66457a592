"""`--on`: where a sweep is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from rookery.config.messages import shown
from rookery.errors import ConfigError

LOCAL, RAY = "local", "ray"
PLACES = (LOCAL, RAY)
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="|".join(PLACES),
        help="Train on this machine, or on the nodes of a Ray cluster.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT",
        help="With --on ray, the cluster; by default RAY_ADDRESS, or one that is started "
        "here and ended again.",
    ),
]


@dataclass(frozen=True)
class Place:
    """Where a sweep is trained."""

    engine: Callable[..., Any]
    """Makes what trains it; called like `LocalSweep`."""
    arguments: tuple[str, ...] = ()
    """The options that name the place again."""


def place_of(on: str, address: str | None) -> Place:
    """Return the place that the options name; called before anything is written.

    Raises:
        ConfigError: if a sweep cannot be trained there.
    """
    if on not in PLACES:
        raise ConfigError(f"--on {shown(on)} is not known: choose {' or '.join(PLACES)}.")
    if on == LOCAL:
        if address is not None:
            raise ConfigError(f"--ray-address {shown(address)} needs --on ray.")
        from rookery.sweeps.local import LocalSweep

        return Place(LocalSweep)
    from rookery.sweeps.ray_cells import check_ray, on_ray

    check_ray(address)
    arguments = ("--on", RAY, *(["--ray-address", address] if address else []))
    return Place(on_ray(address), arguments)
