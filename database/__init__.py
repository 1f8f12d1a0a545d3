"""Facts that ship with the package: JSON lines, one file per device, written by ``feinsum-fuse db export``."""
