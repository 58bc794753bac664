"""The command line: one file a command, each of them thin."""

from __future__ import annotations


def main() -> None:
    """Run the command `counterplay`; one that is interrupted while it loads says so too."""
    import sys

    from counterplay.cli import signals

    signals.listen()
    try:
        from counterplay.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write(f"counterplay: {signals.SAID}\n")
        signals.leave()
