"""Job -> attempt -> node -> cause, and which nodes are bad."""
