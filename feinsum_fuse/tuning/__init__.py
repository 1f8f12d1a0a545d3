"""``ff.tune``: mappings searched by the model and by measurement."""
