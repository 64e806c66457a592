"""Where progress is shown: live in a terminal or a notebook, nowhere else."""

from __future__ import annotations

import io
import sys
import time
from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live

FORMAT = '<pre style="line-height: 1.2; white-space: pre">{code}</pre>'
NOTEBOOK_WIDTH = 88
"""Characters in a line of a notebook's output."""
NOTEBOOK_SECONDS = 0.5
"""The least time between two updates in a notebook, which stores each of them."""


class View(Protocol):
    """Shows the newest of what it is given, in place of the one before."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> Any: ...

    def update(self, renderable: RenderableType) -> None:
        """Show something else from now on."""


def live_view(console: Console) -> View | None:
    """Return a view for a terminal or a notebook; None if this is neither."""
    if in_notebook():
        return NotebookView()
    if console.is_terminal:
        return Live(console=console, refresh_per_second=4)
    return None


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookView:
    """Shows one output of a notebook cell, as text with colours, and updates it."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._newest: RenderableType | None = None
        self._updated = 0.0

    def __enter__(self) -> NotebookView:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._newest is not None:
            self._draw(self._newest)

    def update(self, renderable: RenderableType) -> None:
        """Show something else from now on."""
        self._newest = renderable
        if time.monotonic() - self._updated >= NOTEBOOK_SECONDS:
            self._draw(renderable)

    def _draw(self, renderable: RenderableType) -> None:
        display: Any = import_module("IPython.display").display
        self._updated, self._newest = time.monotonic(), None
        output = as_html(renderable)
        if self._handle is None:
            self._handle = display(output, raw=True, display_id=True)
        else:
            self._handle.update(output, raw=True)


def as_html(renderable: RenderableType) -> dict[str, str]:
    """Return what rich would print as HTML and as text, by their MIME types."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=NOTEBOOK_WIDTH,
        force_terminal=True,
        force_jupyter=False,
        color_system="truecolor",
    )
    console.print(renderable)
    html = console.export_html(inline_styles=True, code_format=FORMAT, clear=False)
    return {"text/html": html, "text/plain": console.export_text()}


class Shown(ABC):
    """Something with a table: print it, or leave it at the end of a notebook cell.

    Subclasses define `__rich__`, which returns what is shown.
    """

    @abstractmethod
    def __rich__(self) -> RenderableType:
        """Return what is shown."""

    def __str__(self) -> str:
        lines = as_html(self.__rich__())["text/plain"].splitlines()
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return as_html(self.__rich__())["text/html"]
