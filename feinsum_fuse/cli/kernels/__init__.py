"""Verbs that end in a kernel: what it is, and files of it."""
