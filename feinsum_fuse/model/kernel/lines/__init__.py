"""Lines that a kernel fetches from beyond its caches."""
