"""Partial mappings of Einsums joined into mappings of a cascade, with exact capacity."""
