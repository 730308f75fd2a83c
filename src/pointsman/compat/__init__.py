"""Floor 7: the names of the founding documents (docs/sources), for code written against them."""
