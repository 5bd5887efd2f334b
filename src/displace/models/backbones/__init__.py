"""Convolutional networks and vision transformers in plain PyTorch, with the official parameter names."""
