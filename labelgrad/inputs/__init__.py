"""A person's files on their way to tensors: a folder of pictures, a table, or arrays."""
