"""The paper's tables and figures, and estimators on trial, run here; not installed."""
