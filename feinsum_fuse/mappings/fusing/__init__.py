"""Which Einsums of a cascade are computed together."""
