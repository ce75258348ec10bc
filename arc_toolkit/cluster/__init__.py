"""The Kubernetes API as raw JSON: the only package that imports `kubernetes`."""
