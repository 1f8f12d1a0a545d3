"""The driver: stages of growing spaces, each cut by what the one before found; fronts; the best few."""

from .entry import search

__all__ = ["search"]
