"""The command line: `main` parses and dispatches; each command is a module."""
