"""A transform: a function from a sketch and parameters to a sketch, with the structures that it is for."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from constantdict import constantdict

from ..arguments import checked, described, instance
from ..cascades.cascade import Cascade
from ..errors import Error, TransformError
from ..formats.opencl import OpenCL
from ..formats.spec import Spec
from ..mappings.default_mapping import default_space
from ..mappings.family import Family
from ..schedule.target import ANY_DEVICE, Target
from .parameters import Domain, ParameterValue
from .roles import Pattern, Roles
from .sketch import Sketch

SketchFunction = Callable[..., Sketch]
ParameterCondition = Callable[[Mapping[str, ParameterValue], Target], bool]
SHOWN = 4
"""Einsums of which a refusal says what they have."""
UNKNOWN = "no roles, since its sizes are symbolic, it is a recurrence, or it scatters"
_CASCADE, _TARGET = instance("a Cascade", Cascade), instance("a Target", Target)


@dataclass(frozen=True)
class Transform:
    """What an engineer knows about a structure: which rewritings and decisions suit it, and what is left to be tuned."""

    name: str
    """Module and function, such as ``products.register_tiles``."""
    patterns: tuple[Pattern, ...]
    """One: for all Einsums like it. Several: for a run of Einsums, each like its pattern, that reads what the run wrote before; others,
    which read nothing of the run, may stand between them."""
    function: SketchFunction = field(repr=False)
    parameters: constantdict[str, Domain] = field(default_factory=constantdict)
    conditions: constantdict[str, ParameterCondition] = field(default_factory=constantdict, repr=False)
    """What it asks of the parameters together, in words -> whether they fulfil it on a target."""
    source: str = ""
    """Where the idea is from."""

    @property
    def idea(self) -> str:
        """The first paragraph of its docstring, in one line."""
        return " ".join((self.document.split("\n\n")[0]).split())

    @property
    def document(self) -> str:
        """Its docstring: the idea, and a figure of its tree."""
        return inspect.getdoc(self.function) or ""

    @checked(TransformError, cascade=_CASCADE)
    def matched(self, cascade: Cascade) -> tuple[Roles, ...]:
        """The Einsums of the cascade that it is for; empty if it is for none."""
        if len(self.patterns) == 1:
            found = [Roles.of(einsum) for einsum in cascade.einsums]
            return tuple(roles for roles in found if roles is not None and self.patterns[0].matches(roles.extents))
        known = [Roles.of(einsum) for einsum in cascade.einsums]
        for start in range(len(known)):
            run = _chain(known[start:], self.patterns)
            if run:
                return run
        return ()

    @checked(TransformError, cascade=_CASCADE)
    def applies_to(self, cascade: Cascade) -> bool:
        """Whether its pattern is in the cascade, and what it rewrites can be rewritten."""
        if not self.matched(cascade):
            return False
        try:
            self.sketch(cascade)
        except Error:
            return False
        return True

    @checked(TransformError, cascade=_CASCADE)
    def values(self, cascade: Cascade) -> dict[str, tuple[ParameterValue, ...]]:
        """Domain -> its values for this cascade, the usual one first."""
        matched = self.matched(cascade)
        return {name: parameter.values(matched) for name, parameter in self.parameters.items()}

    @checked(TransformError, cascade=_CASCADE, target=_TARGET)
    def points(self, cascade: Cascade, target: Target = ANY_DEVICE) -> Iterator[dict[str, ParameterValue]]:
        """All combinations of the parameters' values that fulfil the conditions, the usual ones first."""
        domains = self.values(cascade)
        for taken in itertools.product(*domains.values()):
            point = dict(zip(domains, taken, strict=True))
            if not self._broken(point, target):
                yield point

    def _broken(self, point: Mapping[str, ParameterValue], target: Target) -> str:
        """The first condition that these parameters do not fulfil; empty if they fulfil all."""
        return next((text for text, holds in self.conditions.items() if not holds(point, target)), "")

    @checked(TransformError, cascade=_CASCADE, target=_TARGET)
    def sketch(self, cascade: Cascade, target: Target = ANY_DEVICE, **parameters: ParameterValue) -> Sketch:
        """What it makes of a cascade; parameters that are not given have their usual values.

        Raises :class:`~feinsum_fuse.errors.TransformError` for a cascade that it is not for, for parameters that it does not have and for
        values that it does not take.
        """
        matched = self.matched(cascade)
        if not matched:
            pattern = "; then ".join(map(str, self.patterns))
            own = "; ".join(f"{e.name} has {Roles.of(e) or UNKNOWN}" for e in cascade.einsums[:SHOWN])
            hint = f"{own}. ff.transforms_for lists what applies."
            raise TransformError(f"the transform {self.name} is for other Einsums: {pattern}", hint=hint)
        return self.function(Sketch(cascade, target, matched), **self._point(cascade, target, parameters))

    def _point(self, cascade: Cascade, target: Target, given: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
        """The values of all parameters."""
        domains = self.values(cascade)
        for name, value in given.items():
            if name not in domains:
                hint = f"It has {', '.join(domains)}." if domains else "It has none."
                raise TransformError(f"the transform {self.name} has no parameter {name!r:.40}", hint=hint)
            if not any(type(value) is type(known) and value == known for known in domains[name]):
                hint = f"It takes {', '.join(map(str, sorted(domains[name])))}."
                raise TransformError(f"{name} of the transform {self.name} cannot be {described(value)} here", hint=hint)
        if set(given) == set(domains):
            point = dict(given)
        else:
            fitting = (p for p in self.points(cascade, target) if all(p[name] == value for name, value in given.items()))
            point = next(fitting, {**{name: found[0] for name, found in domains.items()}, **given})
        broken = self._broken(point, target)
        if broken:
            values = ", ".join(f"{name}={value}" for name, value in point.items())
            raise TransformError(f"the transform {self.name} wants {broken}, which {values} do not fulfil")
        return point

    @checked(TransformError, cascade=_CASCADE, target=_TARGET)
    def apply(self, cascade: Cascade, target: Target = ANY_DEVICE, *, opencl: OpenCL | None = None, **parameters: ParameterValue) -> Spec:
        """The workload, rewritten, with its mapping, on the architecture of default mappings: for ``ff.compile`` and ``ff.measure``.

        ``opencl`` says what lanes are, as for ``ff.default_mapping``. Raises as :meth:`sketch`, and
        :class:`~feinsum_fuse.errors.LoweringError` for a cascade that has no mapping.
        """
        sketch = self.sketch(cascade, target, **parameters)
        family = Family(default_space(sketch.cascade, opencl, target), target, outputs=sketch.cascade.outputs)
        return family.spec.replace(mapping=family.mapping(sketch.chooser()))


def _chain(found: Sequence[Roles | None], patterns: Sequence[Pattern]) -> tuple[Roles, ...]:
    """The run that begins with the first of these Einsums, each like its pattern; those that read nothing of it are passed over. Empty if
    there is none.
    """
    run: list[Roles] = []
    for roles in found:
        reads = roles is not None and not {one.einsum.output.tensor for one in run}.isdisjoint(a.tensor for a in roles.einsum.operands)
        if run and roles is not None and not reads:
            continue
        if roles is None or not patterns[len(run)].matches(roles.extents):
            return ()
        run.append(roles)
        if len(run) == len(patterns):
            return tuple(run)
    return ()


def transform(
    *patterns: Pattern,
    parameters: Mapping[str, Domain] | None = None,
    conditions: Mapping[str, ParameterCondition] | None = None,
    source: str = "",
) -> Callable[[SketchFunction], Transform]:
    """Make a transform of a function from a sketch and parameters to a sketch.

    ``patterns``: the Einsums it is for. ``parameters``: keyword -> its values. ``conditions``: words -> a function of the parameters and
    the target. ``source``: where the idea is from. Raises :class:`~feinsum_fuse.errors.TransformError` for a function that
    has no docstring, or does not take the parameters.
    """

    def decorate(function: SketchFunction) -> Transform:
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        wanted = list(inspect.signature(function).parameters)[1:]
        if not patterns or not inspect.getdoc(function) or wanted != list(parameters or {}):
            hint = "A transform has a pattern, a docstring, and declares its parameters in the order in which its function takes them."
            raise TransformError(f"{name} is no transform: it takes {', '.join(wanted) or 'nothing'} beside the sketch", hint=hint)
        return Transform(name, patterns, function, constantdict(parameters or {}), constantdict(conditions or {}), source)

    return decorate
