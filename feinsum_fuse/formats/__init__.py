"""What users write, as values; whoever has one can print it, since the writers are registered with the package."""

from .writing import drawing, text_tables, writer

__all__ = ["drawing", "text_tables", "writer"]
