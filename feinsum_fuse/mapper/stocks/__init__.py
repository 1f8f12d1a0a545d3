"""The tables of all Einsums: made once, by several processes, and kept from stage to stage and on disk."""
