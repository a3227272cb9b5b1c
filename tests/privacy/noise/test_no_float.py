"""No floating point on the path from bits to integers, in the compiled code and in the source.

The compiled code is read three times: numba's inferred types, LLVM, machine code. Some versions
of numba make a double of an unsigned and a signed 64-bit integer in one expression, without a
word; this is where it would show.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import njit

from sfumato.privacy.noise import (
    SeededStream,
    bernoulli_exp,
    choose,
    discrete_gaussian,
    discrete_laplace,
    kernels,
    planar,
)

pytestmark = pytest.mark.privacy

FLOAT_IR = re.compile(
    r"\b(double|float|half|bfloat|x86_fp80|fp128"
    r"|f(?:add|sub|mul|div|rem|neg|cmp|ptoui|ptosi|ptrunc|pext)|[us]itofp"
    r"|llvm\.(?:exp|log|sqrt|pow|fma|floor)\S*)\b"
)
FLOAT_ASM = re.compile(
    r"\b(v?(?:add|sub|mul|div|sqrt|ucomi|comi)[sp][sd]|v?cvt\w+|f(?:add|mul|div|cvt\w*)|exp|log)\b"
)
FLOAT_TYPE = re.compile(r"float|complex|double")
SOURCES = sorted(set(Path(kernels.__file__).parent.glob("*.py")) - {Path(planar.__file__)})
"""Integers only. Noise of locations (`planar`) lies on a lattice; its correction is stated."""
FORBIDDEN = {
    *("float", "complex", "exp", "expm1", "log", "log1p", "log2", "sqrt", "pow", "true_divide"),
    *("float16", "float32", "float64", "half", "single", "double", "random", "linspace", "mean"),
    *("limit_denominator", "from_float", "numerics", "decimal", "Decimal"),
}


def floats_compiled(dispatcher: Any) -> set[str]:
    """Traces of floating point in everything that was compiled for a function."""
    assert dispatcher.overloads, "the function was never called"
    found: set[str] = set()
    for signature, compiled in dispatcher.overloads.items():
        assert compiled.type_annotation is not None, "loaded from the cache: nothing to read"
        types = [str(kind) for kind in compiled.type_annotation.typemap.values()]
        types += [str(compiled.signature.return_type), *map(str, signature)]
        # Modules and functions are shown with their path, which is no type.
        types = [kind for kind in types if not kind.startswith(("Module(", "type(", "Function("))]
        found |= {kind for kind in types if FLOAT_TYPE.search(kind)}
        found |= set(FLOAT_IR.findall(dispatcher.inspect_llvm(signature)))
        found |= set(FLOAT_ASM.findall(dispatcher.inspect_asm(signature)))
    return found


def floats_written(source: str) -> set[str]:
    """Traces of floating point in a source text: literals, divisions, names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            found.add(f"the literal {node.value}")
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            found.add(f"a division in line {node.lineno}")
        name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", "")))
        if name in FORBIDDEN:
            found.add(f"the name {name}")
    return found


@pytest.fixture(scope="module")
def used(compiled: ModuleType) -> ModuleType:
    """The fresh samplers after the public functions have called them, as in earnest."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fill_noise", "fill_coins", "fill_choices"):
            patch.setattr(f"sfumato.privacy.noise.discrete.{name}", getattr(compiled, name))
        stream = SeededStream(1)
        discrete_gaussian(100, 7, stream)
        discrete_laplace(100, 7, stream)
        bernoulli_exp(np.arange(100), 7, stream)
        choose(3, np.arange(10), 7, stream)
    return compiled


def test_no_compiled_sampler_holds_a_float(used: ModuleType) -> None:
    functions = {name: f for name, f in vars(used).items() if hasattr(f, "overloads")}
    assert {"_chance", "_exp_unit", "_half_bell", "fill_noise", "fill_coins"} <= functions.keys()
    assert {name: floats_compiled(f) for name, f in functions.items()} == {
        name: set() for name in functions
    }


def test_the_reader_of_compiled_code_sees_a_float_that_came_in_unasked() -> None:
    @njit
    def mixed(n: np.uint64) -> np.uint64:
        return np.uint64(n / np.uint64(7)) * np.uint64(3)

    @njit
    def clean(n: np.uint64) -> np.uint64:
        return (n + np.uint64(1)) * np.uint64(3)

    mixed(np.uint64(5)), clean(np.uint64(5))
    assert {"float64", "double"} <= floats_compiled(mixed)
    assert floats_compiled(clean) == set()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_source_of_the_noise_mentions_a_float(path: Path) -> None:
    assert floats_written(path.read_text()) == set()


@pytest.mark.parametrize(
    "line",
    ["x = 0.5", "x = n / d", "x /= 2", "x = float(n)", "x = np.exp(n)", "from math import sqrt"],
)
def test_the_reader_of_sources_sees_a_float(line: str) -> None:
    assert floats_written(line)
