"""Reads logs, saved or live Kubernetes objects, metrics: sources in, plain records out."""
