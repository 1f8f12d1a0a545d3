"""What a hand-written kernel reaches, class by class, and what our default mapping reaches beside it."""
