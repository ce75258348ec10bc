"""Settings into AzureML documents: find the targets, plan the edits, prove them. Pure but for
reading files.
"""
