"""The command line as ``python -m displace``."""

from displace.cli import main

if __name__ == "__main__":
    main()
