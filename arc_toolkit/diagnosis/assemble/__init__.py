"""Records become attempts: which log and pod belong together, and the evidence about each."""
