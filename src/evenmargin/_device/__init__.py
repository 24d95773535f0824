"""What is known of devices: arrays there, products of kernels, and the fused kernel."""
