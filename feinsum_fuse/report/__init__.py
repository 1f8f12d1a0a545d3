"""Measured and predicted figures side by side."""
