"""``ff.optimize``: somebody's kernel, as fast as what is known makes it."""
