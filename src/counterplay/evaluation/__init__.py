"""Evaluation: ranks and what follows from them; numpy in, numpy out."""
