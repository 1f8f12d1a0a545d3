"""Transforms as values: the structures they are for, their parameters, what they decide, and where they are found."""
