"""One training script on a changing set of workers: `arc-toolkit elastic`.

A controller on the head node and one agent per node speak JSON lines over TCP. An agent keeps
standby processes that have imported what the script imports, and turns them into ranks. Only
`ray_cluster.py` knows Ray.
"""
