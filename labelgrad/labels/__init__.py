"""What label gradient alignment is made of: the gap, the slope it gives the labels, their table."""
