"""Reading what people have, and turning it into numbers."""
