"""Warnings about what users' files say and we read otherwise, or not at all."""

from __future__ import annotations


class SpecWarning(UserWarning):
    """Something in a user's file is accepted and has no effect, or another one than it may seem."""
