"""`--on`: where a sweep is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.cli.slurm import options_of
from rookery.errors import ConfigError

if TYPE_CHECKING:
    from rookery.sweeps.slurm import Option

LOCAL, RAY, SLURM = "local", "ray", "slurm"
PLACES = (LOCAL, RAY, SLURM)
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="|".join(PLACES),
        help="Train here or on the nodes of a Ray cluster, or submit a job array "
        "to Slurm and return.",
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

    engine: Callable[..., Any] | None
    """Makes what trains it, called like `LocalSweep`; None if it is submitted to Slurm."""
    arguments: tuple[str, ...] = ()
    """The options that name the place again."""
    slurm: Sequence[Option] = ()
    """What sbatch is given."""


def place_of(
    on: str, address: str | None, slurm: Sequence[str] | None, until: str | None
) -> Place:
    """Return the place that the options name; called before anything is written.

    Raises:
        ConfigError: if a sweep cannot be trained there.
    """
    from rookery.config.messages import shown

    if on not in PLACES:
        raise ConfigError(f"--on {shown(on)} is not known: choose {', '.join(PLACES)}.")
    if on != RAY and address is not None:
        raise ConfigError(f"--ray-address {shown(address)} needs --on ray.")
    if on != SLURM and slurm:
        raise ConfigError(f"--slurm {shown(slurm[0])} needs --on slurm.")
    if on == SLURM:
        return Place(None, slurm=options_of(slurm, until))
    if on == LOCAL:
        from rookery.sweeps.local import LocalSweep

        return Place(LocalSweep)
    from rookery.sweeps.ray_cells import check_ray, on_ray

    check_ray(address)
    arguments = ("--on", RAY, *(["--ray-address", address] if address else []))
    return Place(on_ray(address), arguments)
