"""`rookery nodes`: what the machines of a cluster compute with."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from rookery.cli.options import AsJson
from rookery.printing import err, out, print_json, tell

COLUMNS = ("rookery", "torch", "numpy", "numba", "python", "processor")


def nodes(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="ADDRESS",
            help="HOST:PORT of a Ray cluster; by default RAY_ADDRESS. Without any, only "
            "this machine is shown.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show cores, memory, versions and bits of this machine and of a cluster's nodes.

    Nodes with other versions or other bits than this machine get no cells of a sweep.
    """
    from rookery.api.nodes import nodes

    with err.status("computing the bits of every machine …"):
        found = nodes(address)
    if as_json:
        print_json(found.to_json())
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("machine", "cores", "free GiB", *COLUMNS, "bits"):
        table.add_column(title, overflow="fold")
    table.add_row(*_row("this machine", found.here))
    for node in found.nodes:
        if "bits" in node:
            table.add_row(*_row(node["node"], node))
    out.print(table)
    for node in found.nodes:
        if node["why"]:
            tell(f"{node['node']} gets no cells: {node['why']}.")


def _row(name: str, facts: dict[str, Any]) -> list[str]:
    free = f"{facts['free_bytes'] / 2**30:.1f}"
    versions = [str(facts[column]) for column in COLUMNS]
    return [name, str(facts["cores"]), free, *versions, facts["bits"][:12]]
