"""Writing AzureML documents of one generation as those of the next: sweeps and ParallelRunSteps to v2."""
