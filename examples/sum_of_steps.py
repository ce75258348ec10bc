"""The shortest training script with checkpoints: it adds up numbers, and is wrong if a step is lost or done twice."""

import os
import time

from arc_toolkit.checkpoints import Store

STEPS = 150
store = Store("checkpoints/run" if "ARC_TOOLKIT_CHECKPOINTS" not in os.environ else None)
checkpoint = store.latest()
total = int((checkpoint / "total").read_text()) if checkpoint else 0
for step in store.steps(STEPS, every=50):
    total += step
    time.sleep(0.02)
    if store.due(step):
        with store.save(step) as folder:
            (folder / "total").write_text(str(total))
if os.environ.get("RANK", "0") == "0":
    print(f"the sum is {total}, and should be {STEPS * (STEPS - 1) // 2}")
