"""Statistics behind guarantees: exact bounds, selected sets, intervals; of arrays alone."""
