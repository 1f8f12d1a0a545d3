"""What a compiler does with the archive; quoted in the documentation and run by a test."""

from __future__ import annotations

import loopy as lp
import pyopencl as cl

import feinsum_fuse as ff


def dg_kernel(elements: int, dofs: int = 20) -> lp.TranslationUnit:
    """A discontinuous Galerkin divergence as a finite-element code writes it: geometric factors inside a substitution rule."""
    return lp.make_kernel(
        [
            f"{{[iel, idof]: 0 <= iel < {elements} and 0 <= idof < {dofs}}}",
            f"{{[dim, r, jdof]: 0 <= dim, r < 3 and 0 <= jdof < {dofs}}}",
            f"{{[jel]: 0 <= jel < {elements}}}",
            f"{{[kel]: 0 <= kel < {elements}}}",
        ],
        """
        geometry(d, s, e) := inverse_jacobian[d, s, e] * scaling[e]
        reference(s, i, j) := derivative[s, i, j]
        flux(d, e, j) := velocity[d, e, j]
        scaling[jel] = 1 / volume[jel]  {id=metric}
        divergence[iel, idof] = sum((dim, r, jdof), geometry(dim, r, iel) * reference(r, idof, jdof) * flux(dim, iel, jdof)) \
            {id=divergence, dep=metric}
        mean[kel] = 0.5 * (divergence[kel, 0] + divergence[kel, 1])  {id=mean, dep=divergence}
        """,
        [lp.GlobalArg("volume, scaling, inverse_jacobian, derivative, velocity, divergence, mean", "float32", shape=lp.auto)],
        lang_version=(2018, 2),
        name="dg",
    )


# begin
def optimised(kernel: lp.TranslationUnit, device: cl.Device) -> lp.TranslationUnit:
    """The compiler's own kernel by the best schedule that is known for it, or as it is."""
    fact = ff.retrieve(kernel, device)
    print(fact)
    return fact.apply(kernel) if fact else kernel
# end
