"""Search spaces, and a search with equal effort for every method."""
