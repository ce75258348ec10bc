"""Kubernetes workloads onto spot capacity: which pod specs, what to put into them, and what must stay where it is."""
