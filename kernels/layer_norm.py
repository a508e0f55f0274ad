"""Layer norm in float32 with its backward pass: three kernels, six outputs."""

import torch
import triton
import triton.language as tl

from assay.kernel import (
    FLOAT32,
    Bound,
    Case,
    Kernel,
    Output,
    Peer,
    Problem,
    ReductionBound,
    Size,
    Tensors,
    Variant,
    Work,
)

EPS = 1e-5
"""Added to the variance, as torch does by default."""


# snippet: layer-norm-kernels
@triton.jit
def forward_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    mean_ptr,
    rstd_ptr,
    columns,
    x_row,
    x_col,
    y_row,
    y_col,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # Offsets are 64 bits wide: rows times stride passes 2^31 on a large matrix.
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    # The variance of what is left after the mean, in a second pass over the registers: the mean of squares less the
    # square of the mean would cancel in rows far from 0. A lane past the row holds 0 - mean, which must not count.
    centred = tl.where(inside, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + EPS)
    # No `other`: what these hold past the row is never stored, nor summed as x is.
    w = tl.load(w_ptr + column, mask=inside)
    b = tl.load(b_ptr + column, mask=inside)
    tl.store(y_ptr + row * y_row + column * y_col, centred * rstd * w + b, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def backward_rows_kernel(
    x_ptr,
    w_ptr,
    dy_ptr,
    mean_ptr,
    rstd_ptr,
    dx_ptr,
    columns,
    x_row,
    x_col,
    dy_row,
    dy_col,
    dx_row,
    dx_col,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=inside, other=0.0)
    dy = tl.load(dy_ptr + row * dy_row + column * dy_col, mask=inside, other=0.0)
    w = tl.load(w_ptr + column, mask=inside, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    normal = (x - tl.load(mean_ptr + row)) * rstd
    # 0 past the row, because dy and w are: neither sum below needs a mask of its own.
    slope = dy * w
    along_one = tl.sum(slope, axis=0) / columns
    along_normal = tl.sum(slope * normal, axis=0) / columns
    dx = rstd * (slope - along_one - normal * along_normal)
    tl.store(dx_ptr + row * dx_row + column * dx_col, dx, mask=inside)


@triton.jit
def backward_columns_kernel(
    x_ptr,
    dy_ptr,
    mean_ptr,
    rstd_ptr,
    dw_ptr,
    db_ptr,
    rows,
    columns,
    x_row,
    x_col,
    dy_row,
    dy_col,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    # Each program owns its columns and walks down all rows, so that the order of addition is fixed and a second run
    # gives the same bits; atomics would be faster on few columns and give other bits every time.
    column = tl.program_id(0).to(tl.int64) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    dw = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    db = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for start in range(0, rows, BLOCK_ROWS):
        row = start + tl.arange(0, BLOCK_ROWS).to(tl.int64)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        x = tl.load(x_ptr + row[:, None] * x_row + column[None, :] * x_col, mask=inside, other=0.0)
        dy = tl.load(dy_ptr + row[:, None] * dy_row + column[None, :] * dy_col, mask=inside, other=0.0)
        mean = tl.load(mean_ptr + row, mask=row < rows, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < rows, other=0.0)
        dw += dy * ((x - mean[:, None]) * rstd[:, None])
        db += dy
    tl.store(dw_ptr + column, tl.sum(dw, axis=0), mask=column < columns)
    tl.store(db_ptr + column, tl.sum(db, axis=0), mask=column < columns)


# end snippet


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Standard normal rows, `shift` away from 0; weights around 1, biases around 0, standard normal gradients."""
    rows, columns = size["rows"], size["columns"]

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return {
        "x": normal(rows, columns) + size.get("shift", 0),
        "w": 1.0 + 0.5 * normal(columns),
        "b": normal(columns),
        "dy": normal(rows, columns),
    }


def declare_outputs(inputs: Tensors) -> dict[str, Output]:
    """Shapes: y and dx have that of x; there is one mean and one rstd a row, one dw and one db a column."""
    rows, columns = inputs["x"].shape
    return {
        "y": Output((rows, columns)),
        "mean": Output((rows,)),
        "rstd": Output((rows,)),
        "dx": Output((rows, columns)),
        "dw": Output((columns,)),
        "db": Output((columns,)),
    }


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    """The same formulas in float64, gradients written out: what autograd would do is not taken on trust.

    It also says what a NaN may reach: one in x or dy stays in its row of y, mean, rstd and dx. A NaN in x makes its
    whole row of normalised values NaN, so that all of dw is NaN; one in dy reaches dw and db in its own column alone.
    """
    x, w, b, dy = inputs["x"], inputs["w"], inputs["b"], inputs["dy"]
    mean = x.mean(dim=1, keepdim=True)
    rstd = torch.rsqrt((x - mean).square().mean(dim=1, keepdim=True) + EPS)
    normal = (x - mean) * rstd
    slope = dy * w
    along_one = slope.mean(dim=1, keepdim=True)
    along_normal = (slope * normal).mean(dim=1, keepdim=True)
    return {
        "y": normal * w + b,
        "mean": mean[:, 0],
        "rstd": rstd[:, 0],
        "dx": rstd * (slope - along_one - normal * along_normal),
        "dw": (dy * normal).sum(dim=0),
        "db": dy.sum(dim=0),
    }


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    """Start all three kernels; the two of the backward pass read the mean and rstd that the forward one has written."""
    x, w, b, dy = inputs["x"], inputs["w"], inputs["b"], inputs["dy"]
    y, mean, rstd, dx, dw, db = (outputs[name] for name in ("y", "mean", "rstd", "dx", "dw", "db"))
    rows, columns = x.shape
    block, warps = triton.next_power_of_2(columns), variant.options["num_warps"]
    forward_kernel[(rows,)](
        x, w, b, y, mean, rstd, columns, *x.stride(), *y.stride(), EPS=EPS, BLOCK=block, num_warps=warps
    )
    backward_rows_kernel[(rows,)](
        x, w, dy, mean, rstd, dx, columns, *x.stride(), *dy.stride(), *dx.stride(), BLOCK=block, num_warps=warps
    )
    grid = (triton.cdiv(columns, variant.options["BLOCK_COLUMNS"]),)
    strides = (*x.stride(), *dy.stride())
    backward_columns_kernel[grid](x, dy, mean, rstd, dw, db, rows, columns, *strides, **variant.options)


def work(size: Size) -> Work:
    """Count x and dy as read once, y and dx as written once; what there is one of a row or column is left out."""
    return Work(flops=0, bytes=4 * 4 * size["rows"] * size["columns"])


def aten(inputs: Tensors) -> tuple[torch.Tensor, ...]:
    """The library's forward and backward pass, called as autograd calls them: the same six results."""
    x, w, b, dy = inputs["x"], inputs["w"], inputs["b"], inputs["dy"]
    shape = [x.shape[1]]
    y, mean, rstd = torch.ops.aten.native_layer_norm(x, shape, w, b, EPS)
    wanted = [True, True, True]
    return y, mean, rstd, *torch.ops.aten.native_layer_norm_backward(dy, x, shape, mean, rstd, w, b, wanted)


class RunningErrorBound(Bound):
    """Bounds each output by following the first-order rounding error of every step through the kernel.

    A sum of K terms errs by at most tau(K) times the sum of their magnitudes, tau as in `ComponentwiseBound`; the few
    products and quotients around a sum are counted as four more terms. What else there is follows from the formulas,
    line by line below (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3). No bound that
    looks at the results alone can be tight here: in rows far from 0, x - mean keeps only the error of the mean.
    """

    @property
    def name(self) -> str:
        """The rule's name."""
        return "running error"

    def limit(self, problem: Problem, output: str) -> torch.Tensor:
        """Return the error that has run up in this output."""
        return running_error(output, problem.inputs, problem.want)

    def words(self, problem: Problem, output: str) -> str:
        """Return the formula of this output with its numbers."""
        rows, columns = problem.inputs["x"].shape
        along_row, along_column = FLOAT32.tau(columns + 4), FLOAT32.tau(rows + 4)
        return (
            f"|got - want| <= E({output}), {FORMULAS[output]}; h = (x - mean) rstd, g = dy w, u = 2^-24, "
            f"tau(n) = 4 sqrt(n + 4) u, tau(C) = {along_row:.3g} for {columns} columns, tau(R) = {along_column:.3g} "
            f"for {rows} rows"
        )


E_MEAN = "E(mean) = tau(C) mean|x|"
E_RSTD = "E(rstd) = rstd (((E(mean)^2 + tau(C) var) / (var + eps)) / 2 + 8 u)"
E_NORMAL = "E(h) = rstd E(mean) + |x - mean| E(rstd) + 2 u |h|"
FORMULAS = {
    "mean": E_MEAN,
    "rstd": f"{E_RSTD}, {E_MEAN}",
    "y": f"E(y) = |w| E(h) + 2 u (|h w| + |b|), {E_NORMAL}, {E_RSTD}, {E_MEAN}",
    "dx": (
        "E(dx) = rstd (E(s) + |h| E(t) + |t| E(h) + 4 u (|g| + |s| + |h t|)) + |dx / rstd| E(rstd), s = mean g, "
        "E(s) = tau(C) mean|g|, t = mean(g h), E(t) = tau(C) mean|g h| + mean(|g| E(h)), "
        f"{E_NORMAL}, {E_RSTD}, {E_MEAN}"
    ),
    "dw": f"E(dw) = tau(R) sum|dy h| + sum(|dy| E(h)), {E_NORMAL}, {E_RSTD}, {E_MEAN}",
    "db": "E(db) = tau(R) sum|dy|",
}


def running_error(output: str, inputs: Tensors, want: Tensors) -> torch.Tensor:
    """Return the error of one output, as `FORMULAS` has it."""
    x, w, b, dy = inputs["x"], inputs["w"], inputs["b"], inputs["dy"]
    mean, rstd = want["mean"][:, None], want["rstd"][:, None]
    rows, columns = x.shape
    u, along_row, along_column = FLOAT32.unit, FLOAT32.tau(columns + 4), FLOAT32.tau(rows + 4)
    if output == "db":
        return along_column * dy.abs().sum(dim=0)
    e_mean = along_row * x.abs().mean(dim=1, keepdim=True)
    if output == "mean":
        return e_mean[:, 0]
    # A mean that is off by e shifts every element by e and the variance by e^2: their cross terms add up to 0.
    centred = x - mean
    variance = centred.square().mean(dim=1, keepdim=True)
    e_rstd = rstd * ((e_mean**2 + along_row * variance) / (variance + EPS) / 2 + 8 * u)
    if output == "rstd":
        return e_rstd[:, 0]
    h = centred * rstd
    e_h = rstd * e_mean + centred.abs() * e_rstd + 2 * u * h.abs()
    if output == "y":
        return w.abs() * e_h + 2 * u * ((h * w).abs() + b.abs())
    if output == "dw":
        return along_column * (dy * h).abs().sum(dim=0) + (dy.abs() * e_h).sum(dim=0)
    g = dy * w
    s, t = g.mean(dim=1, keepdim=True), (g * h).mean(dim=1, keepdim=True)
    e_s = along_row * g.abs().mean(dim=1, keepdim=True)
    e_t = along_row * (g * h).abs().mean(dim=1, keepdim=True) + (g.abs() * e_h).mean(dim=1, keepdim=True)
    e_inner = e_s + h.abs() * e_t + t.abs() * e_h + 4 * u * (g.abs() + s.abs() + (h * t).abs())
    return rstd * e_inner + (want["dx"] / rstd).abs() * e_rstd


KERNEL = Kernel(
    name="layer_norm",
    title="Layer norm with its backward pass, float32",
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "32x64", {"BLOCK_ROWS": 32, "BLOCK_COLUMNS": 64, "num_warps": 4}, stack_bytes=0)],
    cases=[
        Case("aligned-32x1024", {"rows": 32, "columns": 1024}),
        Case("ragged-5x781", {"rows": 5, "columns": 781}),
        Case("one-past-33x65", {"rows": 33, "columns": 65}),
        Case("one-short-31x63", {"rows": 31, "columns": 63}),
        Case("one-column-7x1", {"rows": 7, "columns": 1}),
        Case("one-row-1x300", {"rows": 1, "columns": 300}),
        Case("far-9x300", {"rows": 9, "columns": 300, "shift": -200}),
        Case("equal-6x77", {"rows": 6, "columns": 77}, values={"x": "equal"}),
        Case("positive-9x300", {"rows": 9, "columns": 300}, values={"x": "positive", "dy": "positive"}),
        Case("nan-in-x-5x70", {"rows": 5, "columns": 70}, values={"x": "one-nan"}),
        Case("nan-in-dy-5x70", {"rows": 5, "columns": 70}, values={"dy": "one-nan"}),
        Case("inf-in-x-5x70", {"rows": 5, "columns": 70}, values={"x": "one-inf"}),
        # No two tensors of one kernel have the same strides in both, so that taking one's for another's shows.
        Case("strided-inputs-9x70", {"rows": 9, "columns": 70}, {"x": "padded", "dy": "transposed"}),
        Case("strided-outputs-9x70", {"rows": 9, "columns": 70}, {"y": "transposed", "dx": "padded"}),
        Case("sliced-8x64", {"rows": 8, "columns": 64}, dict.fromkeys(("x", "w", "b", "dy", "y", "dx"), "sliced")),
        # Two cases, so that 18 GB of device memory are enough.
        Case("distant-inputs-5x70", {"rows": 5, "columns": 70}, dict.fromkeys(("x", "dy"), "distant")),
        Case("distant-columns-5x7", {"rows": 5, "columns": 7}, dict.fromkeys(("x", "dy"), "distant-columns")),
        Case("distant-output-columns-5x7", {"rows": 5, "columns": 7}, dict.fromkeys(("y", "dx"), "distant-columns")),
        Case("distant-outputs-5x70", {"rows": 5, "columns": 70}, dict.fromkeys(("y", "dx"), "distant")),
    ],
    timed=[Case("4096x2048", {"rows": 4096, "columns": 2048})],
    bound=[
        # The floor is ten times the softmax's: rows 200 from 0 lose two of seven digits when their mean is taken away.
        # It cannot serve dw, which is 0 for equal rows, nor dx, which is 0 for one column: relative to nothing there is
        # no error that is small enough.
        ReductionBound(
            terms=lambda size: max(size["rows"], size["columns"]),
            table={"f32": 1e-4},
            eps={"f32": 2.0**-23},
            outputs=("y", "mean", "rstd", "db"),
        ),
        RunningErrorBound(),
    ],
    work=work,
    peers=[Peer("torch.native_layer_norm", "f32", aten)],
)
