"""Python code and notebooks: source, scopes, values, the byte-exact editor, and its proof."""
