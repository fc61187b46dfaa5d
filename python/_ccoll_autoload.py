# SPDX-License-Identifier: Apache-2.0
"""Called by every `import torch`. It stands beside the package, which loads the native library when imported."""

import os


def load() -> None:
    if os.environ.get("CCOLL_TORCH_AS"):
        import ccoll.torch  # noqa: F401
