"""Everything that lays our numbers beside the paper's; nothing outside imports it."""
