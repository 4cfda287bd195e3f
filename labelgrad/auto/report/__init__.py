"""The page about a run: one HTML file that loads nothing."""
