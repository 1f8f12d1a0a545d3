"""The time of a lowered kernel on a measured processor: blocks on ports, lines through caches, groups over cores."""
