"""Python pipelines of the three AzureML SDKs: found with `ast`, changed by source span, proven
before it counts.
"""
