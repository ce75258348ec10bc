"""Parts of `scripts/bench elastic`."""
