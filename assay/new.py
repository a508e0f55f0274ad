"""Command `new`: writes a commented kernel file that runs as it stands, to be changed into one's own."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template

from assay.config import KERNEL_NAME
from assay.errors import UsageError
from assay.sources import check_folder

FOLDER = Path("kernels")

KERNEL_FILE = Template('''\
"""Row sums in float32. Change this line, and what follows, into your own kernel."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


# Your kernel. Three habits keep the commonest faults out, and the cases below bite where one is missing: a load that
# may pass an edge has a mask and an `other` that adds nothing, such a store has a mask, and offsets are 64 bits wide
# and come from the strides.
@triton.jit
def ${name}_kernel(x_ptr, y_ptr, columns, x_row, x_col, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK).to(tl.int64)
        total += tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns, other=0.0)
    tl.store(y_ptr + row, tl.sum(total, axis=0))


# Inputs are made on the CPU, so that the interpreter and the GPU see the same bits. `size` is that of a case, below.
def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Standard normal rows."""
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


# Outputs are allocated by the harness, which fences and blanks them. Name each with its shape, and its dtype where that
# is not float32: Output(shape, torch.float16).
def declare_outputs(inputs: Tensors) -> dict[str, Output]:
    """One sum a row."""
    return {"y": Output((inputs["x"].shape[0],))}


# What must come out, in float64, written in another way than the kernel is. It also rules on NaN and infinity.
def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    """The sums in float64."""
    return {"y": inputs["x"].sum(dim=1)}


# Write into the outputs that are given and return nothing. Launch as many kernels as it takes.
def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    """Start one program for each row."""
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    ${name}_kernel[(rows,)](x, y, columns, *x.stride(), **variant.options)


# What rates are computed from: arithmetic operations, and the bytes that must move once at least.
def work(size: Size) -> Work:
    """One addition and four bytes an element."""
    elements = size["rows"] * size["columns"]
    return Work(flops=elements, bytes=4 * elements)


KERNEL = Kernel(
    name="${name}",  # the file's name
    title="Row sums, float32",  # what reports call it
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    # A precision and a configuration each; options reach the launch as they stand. `dtype=torch.float16` casts inputs,
    # `capability=(9, 0)` says what a variant needs.
    variants=[Variant("f32", f"block{block}", {"BLOCK": block}) for block in (256, 1024)],
    # The first case is compiled for every target. Small ones, that no block divides, find more than large ones.
    cases=[
        Case("aligned-16x2048", {"rows": 16, "columns": 2048}),
        Case("ragged-7x781", {"rows": 7, "columns": 781}),
        Case("one-past-3x1025", {"rows": 3, "columns": 1025}),
        Case("one-short-3x255", {"rows": 3, "columns": 255}),
        Case("single-1x1", {"rows": 1, "columns": 1}),
        # How tensors lie in memory, by their names.
        Case("padded-7x300", {"rows": 7, "columns": 300}, {"x": "padded"}),
        Case("transposed-7x300", {"rows": 7, "columns": 300}, {"x": "transposed"}),
        Case("sliced-7x300", {"rows": 7, "columns": 300}, {"x": "sliced", "y": "sliced"}),
        Case("distant-3x300", {"rows": 3, "columns": 300}, {"x": "distant"}),
        # Patterns imposed on an input: assay/patterns.py has them all.
        Case("positive-7x300", {"rows": 7, "columns": 300}, values={"x": "positive"}),
        Case("negative-7x300", {"rows": 7, "columns": 300}, values={"x": "negative"}),
        Case("large-7x300", {"rows": 7, "columns": 300}, values={"x": "large"}),
        Case("nan-7x300", {"rows": 7, "columns": 300}, values={"x": "one-nan"}),
        Case("inf-7x300", {"rows": 7, "columns": 300}, values={"x": "one-inf"}),
    ],
    timed=[Case("16384x4096", {"rows": 16384, "columns": 4096})],
    # How large an error may be; each output is held to all of these, see assay/bounds.py. The first is a usual
    # tolerance, relative to the largest result; the second holds each element to what its own terms can lose.
    bound=[
        ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
        ComponentwiseBound(terms=lambda size: size["columns"]),
    ],
    work=work,
    # A library's way to the same result is timed beside yours: peers=[Peer("torch.sum", "f32", function of inputs)].
)
''')


def check_name(name: str) -> None:
    """Refuse a name that no kernel file can have."""
    if not re.fullmatch(KERNEL_NAME, name):
        raise UsageError(
            f"NAME: expected lower-case letters, digits and _, a letter first, found {name!r}; choose such a name"
        )


def kernel_file(name: str) -> str:
    """Return the text of a kernel file of this name."""
    return KERNEL_FILE.substitute(name=name)


def write_kernel(name: str) -> Path:
    """Write the file into the folder of kernels, where none of this name may be; UsageError where that fails."""
    path = FOLDER / f"{name}.py"
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(kernel_file(name))
    except FileExistsError:
        raise UsageError(f"NAME: expected no file {path}, found one; choose another name") from None
    except OSError as error:
        raise UsageError(f"NAME: {path} cannot be written ({error.strerror}); make {FOLDER}/ writable") from None
    return path


def main(argv: Sequence[str]) -> int:
    """Write a kernel file and say how to run it."""
    options = argparse.ArgumentParser(
        prog="python -m assay new", description="Write a commented kernel file that runs as it stands."
    )
    options.add_argument("name", metavar="NAME", help="the kernel's name: the file is kernels/NAME.py")
    name: str = options.parse_args(argv).name
    check_folder()
    check_name(name)
    path = write_kernel(name)
    print(f"{path} sums rows and runs as it stands: change it step by step, and try it with")
    print(f"python -m assay environment && python -m assay interpreter --kernel {path}")
    return 0
