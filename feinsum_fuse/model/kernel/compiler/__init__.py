"""What compilers make of a kernel's text before a core sees it: which scalars become vectors, and which loops are written out."""
