"""Byte-exact edits with proof: YAML, Python, notebooks. Knows neither AzureML nor Kubernetes."""
