"""A child like `assay.faulty` in which the interpreter stands in for the device, where it is asked to use one."""

import os
import sys

if sys.argv[1] == "cuda":
    os.environ["TRITON_INTERPRET"] = "1"

from assay.faulty import main

main("cpu" if sys.argv[1] == "cuda" else sys.argv[1])
