"""From a person's files to a model, and to labels they can trust.

`fit` is the walk through this folder: read, preprocess, cross-fit base models, stack them, distil
the ensemble into one network, evaluate, save.
"""
