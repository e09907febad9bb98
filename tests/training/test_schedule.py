"""The learning rate against PyTorch's scheduler."""

import pytest
import torch

from linstereo.training.schedule import one_cycle


@pytest.mark.parametrize(("steps", "warmup"), [(1000, 0.01), (200, 0.3), (50, 0.05), (10, 0.5)])
def test_the_same_as_torch(steps, warmup):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-4, total_steps=steps, pct_start=warmup, anneal_strategy="linear", cycle_momentum=False
    )
    for step in range(steps):
        expected = optimizer.param_groups[0]["lr"]
        assert one_cycle(step, steps=steps, peak=3e-4, warmup=warmup) == pytest.approx(expected, rel=1e-9), step
        optimizer.step()
        if step + 1 < steps:
            scheduler.step()


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0.01), (2, 0.01), (3, 0.0), (5, 0.99), (1, 0.0)])
def test_very_short_runs_stay_between_zero_and_the_peak(steps, warmup):
    rates = [one_cycle(step, steps=steps, peak=1.0, warmup=warmup) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates), rates
