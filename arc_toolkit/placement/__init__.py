"""Kubernetes workloads on spot capacity: which pod specs, what to add, and what to refuse."""
