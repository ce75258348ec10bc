"""Size, patch and diagnose AzureML training jobs on Kubernetes.

The library's face is its packages: `sizing`, `azureml`, `diagnosis`. Importing this module imports none of
them, so that the command line starts at once.
"""

__version__ = "0.1.0"
