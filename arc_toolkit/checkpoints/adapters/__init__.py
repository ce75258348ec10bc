"""One file per framework. Only these import one, and nothing but the user's code imports them."""
