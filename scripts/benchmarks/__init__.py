"""One module a benchmark, each with `main()`; `scripts/bench NAME` runs it."""
