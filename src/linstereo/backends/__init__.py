"""What runs a network: PyTorch, or ONNX Runtime or OpenVINO on its exported graph, behind one interface."""
