"""The command `settings`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from rookery.cli.complete import complete_section
from rookery.cli.options import AsJson
from rookery.printing import out, print_json

Section = Annotated[
    str | None,
    typer.Argument(
        metavar="SECTION",
        help="A section (dqn, replay, …), a setting or a game; all without it.",
        autocompletion=complete_section,
    ),
]


def settings(section: Section = None, as_json: AsJson = False) -> None:
    """List the settings of a run: names, defaults, types and meanings."""
    from rookery.api.games import settings_table
    from rookery.api.settings import settings as list_settings

    listed = list_settings(section)
    if as_json:
        print_json(listed.to_json())
        return
    for number, group in enumerate(listed):
        if number:
            out.print()
        out.print(Text.assemble((group.name, "bold"), f"  {group.summary}"))
        out.print(settings_table(group.rows))
    if section is None:
        hint = (
            "\nThe settings of a game: rookery settings GAME. One agent's: agents.ID.NAME."
        )
        out.print(Text(hint, "dim"))
