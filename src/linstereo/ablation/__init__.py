"""The ablation tables of the paper, at any budget: their rows, their training, and their report."""
