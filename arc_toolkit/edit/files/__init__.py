"""Files: which to read, inline ignores, edits and diffs."""
