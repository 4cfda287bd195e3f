"""What can be promised of labels: bounds, accepted sets, intervals; NumPy and SciPy alone."""
