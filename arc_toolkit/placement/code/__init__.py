"""Workloads in Python code: dictionaries, objects of Kubernetes SDKs, kfp pipelines."""
