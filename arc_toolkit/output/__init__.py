"""Formats: tables, JSON, and what else a command can print. Pure functions from data to text."""
