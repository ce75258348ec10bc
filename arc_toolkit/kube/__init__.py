"""Kubernetes objects as data, without a client."""
