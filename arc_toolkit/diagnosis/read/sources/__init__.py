"""Where logs and metrics come from. Every source of logs yields `LogFile` records, and one scanner
(diagnosis/read/scan.py) reads them all:

    inventory.py      folders, zips, gz, single files, standard input, globs
    blob.py           Azure Blob storage
    azureml_jobs.py   the logs of an AzureML job

`container_insights.py` makes Kubernetes objects of exported Log Analytics tables.
`metric_points.py` reads metrics from CSV, JSON and MLflow.
"""
