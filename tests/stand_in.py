"""A child like `assay.faulty` in which the interpreter stands in for the device that it is asked to use."""

import os

os.environ["TRITON_INTERPRET"] = "1"

from assay.faulty import main

main("cpu")
