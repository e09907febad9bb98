"""Networks as files for other engines: ONNX graphs of plain operators."""
