"""What the components of an architecture are on the device."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..cascades.names import whole_of
from ..errors import LoweringError
from ..formats.arch import Array, Compute, Hierarchical, Memory
from ..formats.mapping import Spatial, Storage
from ..formats.opencl import FanoutKind, Level, MemoryKind, OpenCL, level_of
from ..formats.spec import Spec
from ..schedule.step import Step
from ..schedule.steps.loop_steps import Bind, Fuse
from ..schedule.tree.nest import LoopRef


class Bindings:
    """The ``opencl`` key with its defaults.

    Without an entry the outermost memory is ``global``, those below it ``local``, those below the last fanout ``private``; a fanout
    without an entry is an ordinary loop (DESIGN: "How nodes map").
    """

    def __init__(self, spec: Spec) -> None:
        self._memories: dict[str, MemoryKind] = {}
        self._opencl = spec.opencl or OpenCL()
        for name in self._hierarchy(spec):
            self._memories[name] = "local" if self._memories else "global"
        if spec.arch is not None:
            for name in self._below_last_fanout(spec):
                if self._memories.get(name) == "local":
                    self._memories[name] = "private"
        if spec.opencl is not None:
            self._memories.update(spec.opencl.memories)

    @staticmethod
    def _hierarchy(spec: Spec) -> list[str]:
        """Memories from the outermost; without an architecture, in the order in which the mapping names them."""
        if spec.arch is not None:
            return [leaf.name for leaf in spec.arch.components if isinstance(leaf, Memory)]
        if spec.mapping is None:
            return []
        nodes = [placed.node for path in spec.mapping.paths() for placed in path]
        return list(dict.fromkeys(node.component for node in nodes if isinstance(node, Storage)))

    @staticmethod
    def _below_last_fanout(spec: Spec) -> set[str]:
        names: set[str] = set()
        assert spec.arch is not None
        for compute in spec.arch.components:
            if not isinstance(compute, Compute):
                continue
            path = spec.arch.path(compute.name)
            last = max((i for i, leaf in enumerate(path) if leaf.spatial), default=len(path))
            if any(isinstance(node, Hierarchical | Array) and getattr(node, "spatial", ()) for node in spec.arch.nodes):
                continue
            names |= {leaf.name for leaf in path[last:]}
        return names

    def memory(self, component: str) -> MemoryKind:
        """What this memory is; :class:`LoweringError` if it is not known."""
        if component not in self._memories:
            raise LoweringError(f"the memory {component!r} is not in the architecture", hint=f"Known: {', '.join(self._memories)}.")
        return self._memories[component]

    def fanout(self, node: Spatial) -> FanoutKind:
        """What the dimension of a Spatial node is; an ordinary loop if nothing is said."""
        return self.dimension(node.component, node.name)

    def dimension(self, component: str, name: str) -> FanoutKind:
        """What the dimension of this name of a fanout is; an ordinary loop if nothing is said."""
        return self._opencl.fanout(component, name)

    def level(self, node: Spatial) -> Level:
        """What runs the iterations of a Spatial node."""
        return level_of(self.fanout(node))


def followed(step: Step, added: Collection[LoopRef]) -> Iterator[Step]:
    """A step that puts a loop on work-items, and the same on loops of statements ``added`` for its Einsum: ``X.scale`` for ``X``."""
    yield step
    for name in dict.fromkeys(ref.einsum for ref in added):
        einsum = whole_of(name)
        if isinstance(step, Bind) and level_of(step.axis) == "local" and step.loop.einsum == einsum:
            loop = step.loop._replace(einsum=name)
            if loop in added:
                yield Bind(loop, step.axis)
        elif isinstance(step, Fuse) and step.outer.einsum == einsum:
            outer, inner = (ref._replace(einsum=name) for ref in (step.outer, step.inner))
            if outer in added and inner in added:
                yield Fuse(outer, inner)
