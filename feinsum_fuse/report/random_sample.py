"""Random legal mappings of a workload for the architecture that a user has, of whatever kind it is."""

from __future__ import annotations

import warnings

from ..formats.spec import Spec
from ..mappings.random import random_mappings
from ..model.evaluation import predict
from ..schedule.target import Target


def random_sample(spec: Spec, count: int, seed: int, target: Target) -> tuple[Spec, ...]:
    """``count`` different Specs whose mappings can be lowered and modelled, fewer if no more are found; one seed gives the same ones
    everywhere.

    Raises :class:`~feinsum_fuse.errors.LoweringError` for a Spec without an architecture.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the given mapping did not warn of concerns trees that nobody keeps
        return random_mappings(spec, count, seed, target=target, check=predict)
