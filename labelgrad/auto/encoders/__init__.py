"""Pretrained encoders of images and texts, and TF-IDF: features of what is not numbers."""
