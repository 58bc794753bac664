"""The paper's tables and figures, run here, side by side with what it printed."""
