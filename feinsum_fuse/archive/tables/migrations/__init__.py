"""How the tables came about: one step per release of the schema, applied in order."""
