"""The mapspace of one Einsum: storage choices, chains of tile vectors, tables of partial mappings."""
