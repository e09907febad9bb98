"""The network: pure `torch.nn` modules, one file per box of the paper's figure."""
