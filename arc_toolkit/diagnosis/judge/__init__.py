"""Which nodes are bad: attempts and the nodes' own trouble, compared with the rest of the pool."""
