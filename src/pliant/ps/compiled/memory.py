"""Compiled access to memory by address, and the hash that everything agrees on.

The rows of a table live in slabs and its index in one array per partition, so that growing never copies a row. Compiled
loops cannot take a list of arrays that grows, so they take the addresses; whoever owns the arrays keeps them alive for as
long as a kernel runs (``store.table.Table`` does). Everything here is inlined into ``merging`` and ``store.kernels``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import carray as _carray  # type: ignore[attr-defined]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from pliant.ps.compiled.numba_cache import bring_along

carray: Any = _carray  # an array over memory at a pointer
F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile on first call, run without the GIL, keep the code on disk for the next process."""
    return _compiled(function, {"contract"})


def compiled_for_moments(function: F) -> F:
    """As ``compiled``, but with the GIL: for loops of some microseconds, which would wait longer than that to have it back."""
    return _compiled(function, {"contract"}, nogil=False)


def compiled_in_any_order(function: F) -> F:
    """As ``compiled``; floats may be added in any order, so that a sum over an array uses the whole width of the processor."""
    return _compiled(function, {"contract", "reassoc"})


def _compiled(function: F, fastmath: set[str], *, nogil: bool = True) -> F:
    made = njit(nogil=nogil, cache=True, fastmath=fastmath, error_model="numpy")(function)
    bring_along(made)
    return cast(F, made)


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where an array begins; several times as fast as ``array.ctypes.data``."""
    return int(array.__array_interface__["data"][0])


def _inline(generator: Callable[..., Any]) -> Any:
    """``intrinsic``, without its promise that callers pass the typing context."""
    return intrinsic(generator)


@_inline
def pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer that ``numba.carray`` takes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@_inline
def prefetch(typing_context: Any, address: Any) -> Any:
    """Begin to load the cache line of an address that will be read soon; harmless if the address is wrong."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function: Any = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(types.int64), generate


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


@compiled
def hash_of(value: Any) -> Any:
    """splitmix64 of 64 bits, as ``placement.splitmix64``."""
    value = np.uint64(value) + _GOLDEN
    value = (value ^ (value >> _S30)) * _MIX_1
    value = (value ^ (value >> _S27)) * _MIX_2
    return value ^ (value >> _S31)
