"""Transforms of other packages: found by their entry point, named, listed, and left out with a warning where they cannot be imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cli.__main__ import main
from feinsum_fuse.patterns import registry

MODULE = '''
from feinsum_fuse.patterns.parameters import OneOf
from feinsum_fuse.patterns.roles import Pattern
from feinsum_fuse.patterns.transform import transform


@transform(Pattern(operands=2, contracted=1, window=0), parameters={"down": OneOf((2, 1))}, source="a test")
def rows_in_pairs(sketch, down):
    """Two rows at once."""
    for roles in sketch.matched:
        sketch = sketch.decided(roles.name, second=roles.longest("left"), down=down)
    return sketch
'''


@pytest.fixture
def product() -> Cascade:
    return ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 9, "N": 17, "K": 5})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that packages are installed to; what is known of transforms is forgotten before and after."""
    monkeypatch.syspath_prepend(tmp_path)
    registry.transforms.cache_clear()
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "their_package"]:
        del sys.modules[name]
    registry.transforms.cache_clear()


def install(site: Path, module: str, entry: str = "their_package.kernels") -> None:
    """A distribution as pip leaves it: a package, and metadata with an entry point called ``theirs``."""
    (site / "their_package").mkdir()
    (site / "their_package" / "__init__.py").write_text("")
    (site / "their_package" / "kernels.py").write_text(module)
    metadata = site / "their_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their_package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{registry.CATALOGUE}]\ntheirs = {entry}\n")
    importlib.invalidate_caches()


@pytest.mark.parametrize("entry", ["their_package.kernels", "their_package"])
def test_an_entry_point_adds_its_transforms(
    site: Path, product: Cascade, entry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module's, or those of all modules of a package."""
    before = [one.name for one in ff.transforms_for(product)]
    registry.transforms.cache_clear()
    install(site, MODULE, entry)
    found = [one.name for one in registry.transforms().values()]
    assert found == list(registry.transforms()) and found[-1] == "theirs.kernels.rows_in_pairs" and "products.register_tiles" in found
    assert len(ff.transforms_for(product)) == len(before) + 1
    spec = registry.transform_called("theirs.kernels.rows_in_pairs").apply(product, down=2)
    assert spec.mapping is not None
    file = site / "product.yaml"
    file.write_text("workload:\n  rank_sizes: {M: 9, N: 17, K: 5}\n  bits_per_value: {All: 32}\n  einsums: ['Z[m,n] = A[m,k] * B[k,n]']\n")
    monkeypatch.setattr("sys.argv", ["feinsum-fuse", "transforms", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "theirs.kernels.rows_in_pairs" in capsys.readouterr().out


def test_a_module_that_cannot_be_imported_is_left_out(site: Path, product: Cascade) -> None:
    install(site, "raise RuntimeError('no such device')\n")
    with pytest.warns(UserWarning, match=r"the transforms of theirs \(their_package.kernels\) cannot be imported: no such device"):
        found = registry.transforms()
    assert found and not [name for name in found if name.startswith("theirs.")]
