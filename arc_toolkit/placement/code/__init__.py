"""Workloads in Python code: manifests as dictionaries, objects of the Kubernetes and Kubeflow SDKs, kfp pipelines."""
