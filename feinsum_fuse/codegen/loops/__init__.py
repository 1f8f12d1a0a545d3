"""Loops that become one, and loops whose last iterations stand apart."""
