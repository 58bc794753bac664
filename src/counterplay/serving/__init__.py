"""Lists of recommendations, and models for other systems."""
