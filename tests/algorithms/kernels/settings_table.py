"""Which settings of an agent concern the gradients of a pass, and values to try.

Every field of `AgentSettings` must have an entry, so that a new one cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rookery.config.agent import AgentSettings
from rookery.config.base import Settings

Table = Mapping[str, tuple[Any, ...] | str]
"""Field to the values to try, or to the reason why it does not concern a pass."""

DRAWING = "decides which transitions are in a batch or what they hold, not the pass"
OPTIMISER = "decides what is done with the gradients of a pass"
ACTING = "decides how agents act"
OTHER = "belongs to other algorithms"
AUTOGRAD = "updates of the user's own networks are computed by autograd"


def field_names(settings: type[Settings] = AgentSettings, prefix: str = "") -> list[str]:
    """Return the names of all fields, such as 'network.width'."""
    names = []
    for name, field in settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Settings):
            names += field_names(kind, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def nested(field: str, value: Any) -> dict[str, Any]:
    """Return settings in which one field has this value."""
    for name in reversed(field.split(".")):
        value = {name: value}
    settings: dict[str, Any] = value
    return settings


def cases(table: Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return each value of each field that concerns the pass, with a name."""
    for field, values in table.items():
        if not isinstance(values, str):
            for value in values:
                yield f"{field}={value}", nested(field, value)
