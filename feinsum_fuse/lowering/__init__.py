"""From LoopTrees to schedules."""

from .lowering import lower as lower
