"""Learning: plain, propensity-weighted, and against an opponent."""
