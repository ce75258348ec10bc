"""YAML and JSON: nodes with positions, the byte-exact editor, and its proof."""
