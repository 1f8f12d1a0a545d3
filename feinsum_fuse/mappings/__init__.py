"""The family of mappings: one description of the decisions that make a mapping, and those who take them."""
