"""The commands `labelgrad reproduce` and `labelgrad tune`."""
