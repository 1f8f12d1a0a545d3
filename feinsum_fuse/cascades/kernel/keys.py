"""Keys of what loopy keeps on disk: classes count with the modules they live in, as pickle finds them there.

pytools names a class in a key by its name alone. A class that has moved to another module then has the key that it had, and what an earlier
release has kept under it is found, and cannot be read: ``AttributeError: Can't get attribute``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pytools.persistent_dict import Hash, KeyBuilder


def _update_for_bfloat16(_: KeyBuilder, key_hash: Hash, key: object) -> None:
    key_hash.update(repr(key).encode())


# pytools tells element types by the names of their classes, dtype[...] or ...DType. That of bfloat16 is bfloat16 since ml_dtypes 0.7.
KeyBuilder.update_for_bfloat16 = _update_for_bfloat16


def update_with_modules(key_hash: Hash, key_builder: KeyBuilder, value: object) -> None:
    """The key of a dataclass of ours, for ``update_persistent_hash``: of its module and its fields, and so for all that its fields hold."""
    _with_modules(key_builder.__class__).update_for_dataclass(key_hash, value)


@cache
def _with_modules(builder: Any) -> Any:
    class WithModules(builder):  # type: ignore[misc]
        """The same builder, which names modules, too, and knows named tuples."""

        def rec(self, key_hash: Hash, key: Any) -> Hash:
            named = isinstance(key, tuple) and type(key) is not tuple
            return super().rec(key_hash, (type(key).__module__, type(key).__name__, *key) if named else key)

        def update_for_dataclass(self, key_hash: Hash, key: Any) -> None:
            self.rec(key_hash, type(key).__module__)
            super().update_for_dataclass(key_hash, key)

        def update_for_enum(self, key_hash: Hash, key: Any) -> None:
            self.rec(key_hash, type(key).__module__)
            super().update_for_enum(key_hash, key)

    return WithModules()
