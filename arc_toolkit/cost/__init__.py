"""What spot capacity really saves: prices, eviction rates, expected time and price, simulation."""
