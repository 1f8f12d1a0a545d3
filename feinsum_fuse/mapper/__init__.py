"""The mapper: the best LoopTree for a workload on an architecture, with a proof."""

from .driver import search
from .failures import NoMappingError, UnprovedError, UnsearchedError
from .options import SearchProgress
from .result import Found, Result, SearchStage, SpaceSize

__all__ = ["Found", "NoMappingError", "Result", "SearchProgress", "SearchStage", "SpaceSize", "UnprovedError", "UnsearchedError", "search"]
