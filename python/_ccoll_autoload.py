# SPDX-License-Identifier: Apache-2.0
"""Called by every `import torch`. It stands beside the package, which loads the native library when imported."""

import os
import sys


def load() -> None:
    if not os.environ.get("CCOLL_TORCH_AS"):
        return
    try:
        import ccoll.torch  # noqa: F401
    except (RuntimeError, ValueError) as error:
        # torch would advise to switch the loading off, after two tracebacks.
        sys.exit(f"ccoll: error: {error}")
