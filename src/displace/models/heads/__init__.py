"""What turns a backbone's feature map into one descriptor, in plain PyTorch with the official parameter names."""
