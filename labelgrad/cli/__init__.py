"""The command line; everything that prints lives here."""
