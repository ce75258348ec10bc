"""Trials for scripts/bench checkpoints: damage, killed processes, notices."""
