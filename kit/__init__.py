"""The kit for a machine with a GPU: ``make`` (``python -m kit.make``) makes it, ``gpu.py`` is what runs there."""
