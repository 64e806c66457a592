"""The base of all settings: what every group of them has in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema

# What lies under these keys of a pydantic schema is no type of a value. Keys of a dict
# stay lax, because in a file all keys are text.
_NO_TYPES = {
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
        for key in schema.keys() - _NO_TYPES:
            _make_scalars_strict(schema[key])
    elif isinstance(schema, list | tuple):
        for inner in schema:
            _make_scalars_strict(inner)


class Settings(BaseModel):
    """A group of settings; every field has a description, which is its only text."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Keep true apart from 1, 3 from 3.0 and numbers from text, at every depth.

        Pydantic's own strict mode would also refuse lists for tuples, and text for
        enums, and a TOML file has nothing else to give for them.
        """
        schema = handler(source)
        _make_scalars_strict(handler.resolve_ref_schema(schema))
        return schema
