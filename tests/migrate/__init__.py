"""Tests of arc_toolkit.migrate."""
