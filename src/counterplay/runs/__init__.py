"""One training on disk: configuration, defaults, training, record, and what is loaded of it."""
