"""Compiles small Triton kernels for a target without a GPU. Usage: kernels.py ARCH FOLDER.

Writes FOLDER/NAME.hsaco and prints a line a kernel: NAME SYMBOL WARPS LDS.
"""

import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(out, x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    values = values - tl.max(values, axis=0)
    weights = tl.exp(values)
    tl.store(out + row * columns + at, weights / tl.sum(weights, axis=0), mask=at < columns)


@triton.jit
def layernorm(out, x, weight, bias, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    scaled = centred / tl.sqrt(variance + epsilon)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * columns + at, (scaled * w + b).to(tl.float16), mask=inside)


@triton.jit
def matmul(out, a, b, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(b + depth[:, None] * n + cols[None, :], mask=(depth[:, None] < k) & (cols[None, :] < n), other=0.0)
        total += tl.dot(left, right)
    tl.store(out + rows[:, None] * n + cols[None, :], total, mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def attention(out, q, k, v, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """One causal head: q, k, v and out are length x D."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    dims = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + dims[None, :], mask=rows[:, None] < length, other=0.0)
    best = tl.full((BM,), -1e30, dtype=tl.float32)
    weight = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        cols = start + tl.arange(0, BN)
        keys = tl.load(k + cols[:, None] * D + dims[None, :], mask=cols[:, None] < length, other=0.0)
        values = tl.load(v + cols[:, None] * D + dims[None, :], mask=cols[:, None] < length, other=0.0)
        scores = tl.dot(queries, tl.trans(keys)) * scale
        seen = (cols[None, :] <= rows[:, None]) & (cols[None, :] < length)
        scores = tl.where(seen, scores, -1e30)
        newer = tl.maximum(best, tl.max(scores, axis=1))
        shares = tl.where(seen, tl.exp(scores - newer[:, None]), 0.0)
        fade = tl.exp(best - newer)
        weight = weight * fade + tl.sum(shares, axis=1)
        total = total * fade[:, None] + tl.dot(shares.to(tl.float16), values)
        best = newer
    tl.store(out + rows[:, None] * D + dims[None, :], total / weight[:, None], mask=rows[:, None] < length)


KERNELS = {
    "softmax": (softmax, {"out": "*fp32", "x": "*fp32", "columns": "i32"}, {"BLOCK": 512}),
    "layernorm": (
        layernorm,
        {"out": "*fp16", "x": "*fp16", "weight": "*fp16", "bias": "*fp16", "columns": "i32", "epsilon": "fp32"},
        {"BLOCK": 1024},
    ),
    "matmul": (
        matmul,
        {"out": "*fp32", "a": "*fp16", "b": "*fp16", "m": "i32", "n": "i32", "k": "i32"},
        {"BM": 64, "BN": 64, "BK": 32},
    ),
    "attention": (
        attention,
        {"out": "*fp32", "q": "*fp16", "k": "*fp16", "v": "*fp16", "length": "i32", "scale": "fp32"},
        {"BM": 64, "BN": 32, "D": 64},
    ),
}

arch, folder = sys.argv[1:]
for name, (function, types, constants) in KERNELS.items():
    signature = types | {constant: "constexpr" for constant in constants}
    source = ASTSource(function, signature, constexprs=constants)
    kernel = triton.compile(source, target=GPUTarget("hip", arch, 64), options={"num_warps": 4})
    with open(f"{folder}/{name}.hsaco", "wb") as file:
        file.write(kernel.asm["hsaco"])
    print(name, kernel.metadata.name, kernel.metadata.num_warps, kernel.metadata.shared)
