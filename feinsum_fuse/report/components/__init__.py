"""A kernel with one thing taken away at a time: what each costs, measured beside predicted."""
