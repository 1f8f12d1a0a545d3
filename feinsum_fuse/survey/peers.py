"""The tuned workloads by PyTorch and by JAX on the device itself, in turns with our programs.

A workload is known by the name of its file; what the libraries do is written as their users would. Float32 stays float32: neither is
allowed shorter products.
"""

from __future__ import annotations

import os
import site
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ..cascades.reading.reader import cascade
from ..device.catalogue import DEVICE_KINDS
from ..device.program.building import build, lowered
from ..device.program.program import Program
from ..device.timing.harness import HostFunction, measure_together
from ..formats.reading.load import load
from .kernels import LONGEST_KERNEL_S
from .step_session import SurveySession, figures
from .tuning import workloads

PeerArrays = Mapping[str, Any]
CLOSE = 1e-3
"""The relative error up to which a peer computes the same, in float32."""


class Library(Protocol):
    """A library of arrays on a device."""

    name: str

    def put(self, array: np.ndarray) -> Any:
        """The array on the device."""
        ...

    def finish(self, result: Any) -> None:
        """Wait until the result is there."""
        ...

    def get(self, result: Any) -> np.ndarray:
        """The result in the host's memory."""
        ...

    def prepared(self, function: Callable[[Any, PeerArrays], Any]) -> Callable[[PeerArrays], Any]:
        """What is called again and again."""
        ...

    def attention(self, arrays: PeerArrays) -> Any:
        """The library's own attention of Q, K and V, scaled by 1/8."""
        ...

    @property
    def functions(self) -> Any:
        """Its module with matmul, einsum and softmax."""
        ...


class Torch:
    """PyTorch on its GPU, or on the processor where the device is one."""

    name = "torch"

    def __init__(self, kind: str) -> None:
        self.functions = import_module("torch")
        if kind != "cpu" and not self.functions.cuda.is_available():
            raise RuntimeError("PyTorch sees no GPU")
        self.place = "cpu" if kind == "cpu" else "cuda"
        self.functions.set_float32_matmul_precision("highest")

    def put(self, array: np.ndarray) -> Any:
        """The array on the device."""
        return self.functions.from_numpy(np.ascontiguousarray(array)).to(self.place)

    def finish(self, result: Any) -> None:
        """Wait until the result is there."""
        if self.place == "cuda":
            self.functions.cuda.synchronize()

    def get(self, result: Any) -> np.ndarray:
        """The result in the host's memory."""
        return np.asarray(result.cpu().numpy())

    def prepared(self, function: Callable[[Any, PeerArrays], Any]) -> Callable[[PeerArrays], Any]:
        """The function as it is: its calls are the library's kernels."""
        return lambda arrays: function(self, arrays)

    def attention(self, arrays: PeerArrays) -> Any:
        """PyTorch's fused attention."""
        return self.functions.nn.functional.scaled_dot_product_attention(arrays["Q"], arrays["K"], arrays["V"], scale=0.125)


class Jax:
    """JAX on its GPU, or on the processor where the device is one; functions are compiled by XLA."""

    name = "jax"

    def __init__(self, kind: str) -> None:
        # Else it takes most of the device's memory at once, and our programs have none.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self.jax = import_module("jax")
        self.jax.config.update("jax_default_matmul_precision", "highest")
        self.functions = import_module("jax.numpy")
        self.place = self.jax.devices("cpu" if kind == "cpu" else "gpu")[0]

    def put(self, array: np.ndarray) -> Any:
        """The array on the device."""
        return self.jax.device_put(array, self.place)

    def finish(self, result: Any) -> None:
        """Wait until the result is there."""
        result.block_until_ready()

    def get(self, result: Any) -> np.ndarray:
        """The result in the host's memory."""
        return np.asarray(result)

    def prepared(self, function: Callable[[Any, PeerArrays], Any]) -> Callable[[PeerArrays], Any]:
        """The function compiled as a whole."""
        compiled: Callable[[PeerArrays], Any] = self.jax.jit(lambda arrays: function(self, arrays))
        return compiled

    def attention(self, arrays: PeerArrays) -> Any:
        """Attention as XLA fuses it."""
        np_ = self.functions
        weights = self.jax.nn.softmax(0.125 * np_.einsum("hme,hpe->hmp", arrays["Q"], arrays["K"]), axis=-1)
        return np_.einsum("hmp,hpf->hmf", weights, arrays["V"])


def _softmax(lib: Library, arrays: PeerArrays) -> Any:
    np_ = lib.functions
    if lib.name == "torch":
        return np_.softmax(arrays["X"], -1)
    return lib.jax.nn.softmax(arrays["X"], axis=-1)  # type: ignore[attr-defined]


PEER_FUNCTIONS: dict[str, Callable[[Library, PeerArrays], Any]] = {
    "product": lambda lib, a: lib.functions.matmul(a["A"], a["B"]),
    "three_products": lambda lib, a: lib.functions.matmul(lib.functions.matmul(lib.functions.matmul(a["X"], a["A"]), a["B"]), a["C"]),
    "attention": lambda lib, a: lib.attention(a),
    "dg_divergence": lambda lib, a: lib.functions.einsum("xre,rij,xej->ei", a["J"], a["D"], a["U"]),
    "softmax": _softmax,
    "matrix_vector": lambda lib, a: lib.functions.matmul(a["A"], a["X"]),
}
"""Name of a workload's file -> its one output by a library, from its inputs by name."""


def libraries(kind: str) -> Iterator[Library | str]:
    """The libraries that are installed and see the device; of the others, why not."""
    for make in (Torch, Jax):
        try:
            yield make(kind)
        except ImportError:
            yield f"{make.name} is not installed"
        except Exception as error:  # whatever a foreign library says
            yield f"{make.name} cannot be used: {error}"


def peers(session: SurveySession) -> None:
    """Each workload's tuned program, or default mapping, in turns with each library.

    Libraries may be another installation's: its packages are found after our own. None is begun that would not end in time if it took as
    long as the longest before it.
    """
    for folder in session.settings.libraries:
        site.addsitedir(folder)
    kind = next((name for name, bit in DEVICE_KINDS.items() if session.device.type & bit), "gpu")
    found: list[Library] = []
    for one in libraries(kind):
        if isinstance(one, str):
            session.write(label="libraries", outcome="left out", message=one)
        else:
            found.append(one)
    tuned = {str(line.get("label")): line.get("spec") for line in session.journal.read("tuning")}
    done = session.journal.done(session.step)
    longest = 0.0
    for label, spec in workloads(session) if found else ():
        if label not in PEER_FUNCTIONS or label in done:
            continue
        if session.left <= longest:
            session.write(outcome="left out", message=f"{label}: no time was left")
            continue
        begin = time.monotonic()
        try:
            file = tuned.get(label)
            mapped, schedule = lowered(load(session.journal.folder / str(file)) if file else spec, session.device)
            _compare(session, label, build(cascade(mapped), schedule, session.device, spec=mapped), found)
        except Exception as error:  # the next one may be all right
            session.failed(label, error)
        longest = max(longest, time.monotonic() - begin)


def _compare(session: SurveySession, label: str, program: Program, found: list[Library]) -> None:
    """Measure a program and its peers in turns, and write a line."""
    items: list[Program | HostFunction] = [program]
    (output,) = program.cascade.outputs
    expected = program.example.expected[output]
    errors = {}
    for lib in found:
        function, arrays = lib.prepared(PEER_FUNCTIONS[label]), {name: lib.put(array) for name, array in program.example.inputs.items()}

        def run(lib: Library = lib, function: Callable[[PeerArrays], Any] = function, arrays: PeerArrays = arrays) -> Any:
            result = function(arrays)
            lib.finish(result)
            return result

        errors[lib.name] = float(np.max(np.abs(lib.get(run()) - expected)) / np.max(np.abs(expected)))
        items.append(HostFunction(lib.name, run))
    ours, *theirs = measure_together(items, device=program.device, timeout_s=max(1.0, min(LONGEST_KERNEL_S, session.left)))
    for lib, one in zip(found, theirs, strict=True):
        same = errors[lib.name] <= CLOSE
        ratio = one.median / ours.median if ours.samples_ns else None
        record = {"label": label, "peer": lib.name, "times_as_fast": ratio if same else None, "same": same}
        record |= {"peer_median_s": one.median, "peer_spread_s": one.spread, "peer_error": errors[lib.name]}
        session.write(**record, **figures(ours))
