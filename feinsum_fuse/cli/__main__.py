"""``python -m feinsum_fuse.cli``: the command line where the console script is not on the path."""

from .main import main

main()
