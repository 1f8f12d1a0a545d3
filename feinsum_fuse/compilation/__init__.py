"""``ff.compile``: from what is to be computed to a program, by the best that is known; what was built before is found on disk."""
