"""All that can be found out on a device within a given time, in one archive (``feinsum-fuse survey``)."""
