"""A made-up fleet: raw Kubernetes objects with a known truth, to measure the verdicts of `arc-toolkit diagnose`.

Written from public sources (Kubernetes, AKS node problem detector, Volcano, AzureML documents) and not from the code
that it measures: nothing here knows how `diagnose` decides. The only coupling to the tool is `tool.py`.

    scenarios   what to simulate: sizes, rates, which nodes are bad
    workload    jobs, gangs, sweeps, pipelines, buggy jobs
    world       the clock: attempts start, fail, are retried; machines go and come back
    endings     what each kind of failure leaves behind in pods and events
    objects     pods, nodes and events as dictionaries
    rules       the plain peer rule and a rule that knows every true cause, for comparison
    tool        runs `diagnose` on the objects
    measure     verdicts against the truth, over many seeds
"""
