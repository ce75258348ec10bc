"""`python -m arc_toolkit` is `arc-toolkit`."""

from arc_toolkit.cli.main import entry

if __name__ == "__main__":
    entry()
