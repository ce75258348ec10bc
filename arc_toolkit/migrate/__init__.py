"""Older generations of AzureML as v2: sweeps of SDK v1.5, HyperDrive and ParallelRunSteps."""
