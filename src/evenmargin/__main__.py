"""`python -m evenmargin`, and what the command `evenmargin` runs."""

from __future__ import annotations

import signal
import sys
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Run the command; Ctrl-C, or being asked to end, stops it without a traceback, also while it is being imported."""

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        from .cli import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
