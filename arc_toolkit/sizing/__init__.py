"""What a node can really give, and the instance types that fit on it. Pure: data in, data out."""
