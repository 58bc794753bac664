"""Records of runs and studies as one self-contained HTML page."""
