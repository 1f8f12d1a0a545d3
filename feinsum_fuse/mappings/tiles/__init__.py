"""Tiles whose sums stay in registers."""
