"""Tuning on several machines: a Dask cluster prepares candidates anywhere, and measures where a worker holds the device."""
