"""The command line, as ``displace`` and ``python -m displace``."""

import sys


def main() -> None:
    """Run the command; Ctrl-C while it is still being loaded ends it as quietly as later."""
    try:
        from displace.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
