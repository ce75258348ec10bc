"""Where logs come from. Every source yields `LogFile` records; one scanner (diagnosis/scan.py) reads them.

    files.py    folders, zips, gz, single files, standard input, globs
    blob.py     list_logs(url: str, jobs: int) -> Iterator[LogFile]
    azureml.py  list_logs(job: str, workspace, resource_group, subscription) -> Iterator[LogFile]

Beside the sources, with the function that `cli/diagnose.py` calls (imported when its option is given):

    metrics.look(source: str) -> Seen                   restarts, and in how many runs and points
    prs.wanted(path: str) -> bool                       a cheap test of the name, called for every file
    prs.read(files: Sequence[LogFile]) -> tuple[list[Finding], list[Skipped]]
    live.read_cluster(args) -> ClusterFacts             args: context, kubeconfig, as_user
    live.watch(args, console) -> int                    args: also history, retention
    history.read(path: str) -> ClusterFacts
    html.render(report: Report) -> str
"""
