"""Tests of arc_toolkit.patching.convert."""
