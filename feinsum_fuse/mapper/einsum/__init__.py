"""The mapspace of one Einsum: storage choices, ways in space, tiles, constraints, and what each holder costs."""
