"""AccelForge's formulas: a mapping on an architecture as its specification has them (accelforge.md, section 5)."""
