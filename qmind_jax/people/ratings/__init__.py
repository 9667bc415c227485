"""People fitted to ratings of trust, and predictions of the next rating."""
