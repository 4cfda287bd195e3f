"""A person's data on their way to tensors: pictures, tables and arrays, a file for each kind."""
