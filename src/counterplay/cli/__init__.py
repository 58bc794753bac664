"""The command line: one file a command, each of them thin."""

from __future__ import annotations

# Most objects of a command are what modules hold, and stay. Python's usual 700 new ones between two
# looks for cycles make these looks, all over the same, up to a tenth of what a study takes.
_BETWEEN_LOOKS = 20_000, 50, 100


def main() -> None:
    """Run the command `counterplay`; one that is interrupted while it loads says so too."""
    import gc
    import sys

    from counterplay.cli import signals

    gc.set_threshold(*_BETWEEN_LOOKS)
    signals.listen()
    try:
        from counterplay.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write(f"counterplay: {signals.SAID}\n")
        signals.leave()
