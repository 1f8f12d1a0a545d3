"""How good a search is, on spaces whose every configuration was measured."""
