"""Tests of arc_toolkit.azureml.migrate."""
