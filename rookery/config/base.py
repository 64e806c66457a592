"""The base class of all groups of settings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema

# Keys of a pydantic schema that do not hold the type of a value. Keys of a dict stay lax,
# because in a file all keys are text.
_NOT_TYPES = {
    "config",
    "default",
    "expected",
    "keys_schema",
    "members",
    "metadata",
    "serialization",
}


def _make_scalars_strict(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in ("int", "float", "bool"):
            schema["strict"] = True
        for key in schema.keys() - _NOT_TYPES:
            _make_scalars_strict(schema[key])
    elif isinstance(schema, list | tuple):
        for inner in schema:
            _make_scalars_strict(inner)


class Settings(BaseModel):
    """A group of settings; every field is documented by its description."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Do not accept true for 1, 3.0 for 3 or text for numbers, at any depth.

        Pydantic's own strict mode would also refuse lists for tuples and text for enums,
        which is how a TOML file expresses them.
        """
        schema = handler(source)
        _make_scalars_strict(handler.resolve_ref_schema(schema))
        return schema
