"""Where the catalogue's transforms and the search meet: sketches as candidates, and their parameters tuned by Optuna."""
