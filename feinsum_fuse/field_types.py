"""Types of stored fields that are bounded, for annotations of plain dataclasses.

pydantic reads the bounds where a record is checked; importing this module does not import pydantic, so that the child process that runs a
kernel shares these types and starts without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


class Bounded:
    """Metadata of an annotated type: constraints in the words of pydantic's core schemas, such as ``ge=0`` or ``max_length=64``."""

    def __init__(self, **constraints: object) -> None:
        self.constraints = constraints

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: CoreSchema = {**handler(source), **self.constraints}
        return schema


FEW = Bounded(max_length=64)
"""Of a list such as the axes of an array."""
Word = Annotated[str, Bounded(max_length=1_000)]
"""A name, a version, a short description."""
Integer = Annotated[int, Bounded(gt=-(2**63), lt=2**63)]
Count = Annotated[int, Bounded(ge=0, lt=2**63)]
Finite = Annotated[float, Bounded(allow_inf_nan=False)]
Nanoseconds = Annotated[float, Bounded(ge=0, allow_inf_nan=False)]
