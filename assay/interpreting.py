"""Keeps Triton's interpreter usable with the NumPy at hand. Called in a child process, before any launch."""

from typing import Any

import triton


def mend_interpreter() -> None:
    """Let a loop bound be read under Triton 3.6 with NumPy 2.4 or newer.

    Triton 3.6 turns the bound, an array of shape (1,), into an int in a way that NumPy 2.4 refuses; Triton 3.7 squeezes
    it first, and so does this. Nothing else of the interpreter is touched.
    """
    if not triton.__version__.startswith("3.6."):
        return
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def mended(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = mended
