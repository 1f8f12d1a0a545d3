"""The enumeration of one Einsum's mapspace: prefixes of fused loops, chains of holders below them, tables of partial mappings."""
