"""Energy: of actions, and of leakage over an Einsum's latency (AccelForge's ``energy.py``)."""

from __future__ import annotations

from collections.abc import Mapping

from ...formats.arch import Arch, ArchNode, Array, Compute, Fanout, Fork, Hierarchical, Leaf
from ..quantity import Number
from .component import leak_power

Usage = Mapping[tuple[str, str], Number]
"""(component, dimension) -> the fraction of the fanout in use, ``usage_scale`` applied."""


def instances(arch: Arch, *, own: bool = True) -> dict[str, int]:
    """Component -> how many of it there are: the product of the fanouts of all components above it and, unless not asked for, of its own.

    A :class:`~feinsum_fuse.formats.arch.Fork` fans out nothing after it, and members of an array nothing beside them.
    """
    result: dict[str, int] = {}

    def fanout(dimensions: tuple[Fanout, ...]) -> int:
        count = 1
        for dimension in dimensions:
            count *= dimension.fanout
        return count

    def walk(nodes: tuple[ArchNode, ...], count: int) -> int:
        for node in nodes:
            if isinstance(node, Hierarchical):
                count = walk(node.nodes, count)
            elif isinstance(node, Fork):
                walk(node.nodes, count)
            elif isinstance(node, Array):
                count *= fanout(node.spatial)
                for member in node.nodes:
                    walk((member,), count)
            else:
                above, count = count, count * fanout(node.spatial)
                result[node.name] = count if own else above
        return count

    walk(arch.nodes, 1)
    return result


def powered(arch: Arch, compute: str, usage: Usage) -> dict[str, Number]:
    """Component -> the fraction of its instances that leak while an Einsum runs on ``compute``.

    Each power-gateable fanout above a component, or its own, contributes ``usage / fanout``, where ``usage`` is already a fraction of the
    fanout: AccelForge's convention. A fanout that the path to ``compute`` does not pass is off.
    """
    result: dict[str, Number] = {}
    _power(arch.nodes, compute, usage, 1, result, any(_contains(node, compute) for node in arch.nodes))
    return result


def _contains(node: ArchNode, compute: str) -> bool:
    if isinstance(node, Hierarchical | Fork | Array):
        return any(_contains(child, compute) for child in node.nodes)
    return isinstance(node, Compute) and node.name == compute


def _power(nodes: tuple[ArchNode, ...], compute: str, usage: Usage, fraction: Number, result: dict[str, Number], on_way: bool) -> Number:
    """The fraction after these nodes; fills in that of each of them.

    ``fraction`` is that of what lies above; ``on_way`` says whether the way to ``compute`` leads through the first of the nodes.
    """
    passed = not on_way
    for node in nodes:
        if isinstance(node, Fork):
            inside = _contains(node, compute)
            _power(node.nodes, compute, usage, fraction, result, inside)
            passed = passed or inside
        elif isinstance(node, Hierarchical):
            fraction = _power(node.nodes, compute, usage, fraction, result, not passed)
            passed = passed or _contains(node, compute)
        elif isinstance(node, Array):
            for dimension in node.spatial:
                fraction = _gated(fraction, dimension, usage.get((node.name, dimension.name), 1))
            inner: dict[str, Number] = {}
            _power(node.nodes, compute, usage, 1, inner, not passed)
            result.update(dict.fromkeys(inner, fraction))
        else:
            fraction = _leaf_power(node, usage, fraction, off=passed)
            result[node.name] = fraction
            passed = passed or (isinstance(node, Compute) and node.name == compute)
    return fraction


def _leaf_power(leaf: Leaf, usage: Usage, fraction: Number, off: bool) -> Number:
    for dimension in leaf.spatial:
        fraction = _gated(fraction, dimension, 0 if off else usage.get((leaf.name, dimension.name), 1))
    return fraction


def _gated(fraction: Number, dimension: Fanout, usage: Number) -> Number:
    return fraction * usage / dimension.fanout if dimension.power_gateable else fraction


def leak_energy(arch: Arch, einsum: str, compute: str, usage: Usage, latency: Number) -> dict[str, Number]:
    """Component -> joules leaked during one Einsum: ``leak power * instances * powered fraction * latency``; of all components.

    AccelForge's convention: a component's own fanout does not multiply its leakage, only those above it do.
    """
    count = instances(arch, own=False)
    fraction = powered(arch, compute, usage)
    leaked = {leaf.name: leak_power(leaf.for_einsum(einsum)) for leaf in arch.components}
    return {leaf.name: leaked[leaf.name] * count[leaf.name] * fraction[leaf.name] * latency for leaf in arch.components}
