"""What a caller and the files ask of a search, beside its options: AccelForge's ``mapper`` key, flipped operands."""
