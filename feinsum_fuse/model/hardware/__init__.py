"""What a device does besides the mapping, told to the formulas of the tree: caches that keep data, whole lines, ports, launches."""
