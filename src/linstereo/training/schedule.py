"""The learning rate as a function of the step alone, so that resuming needs no state."""

START_DIVISOR = 25.0  # peak / rate of the first step
END_DIVISOR = 1e4  # rate of the first step / rate of the last


def one_cycle(step: int, *, steps: int, peak: float, warmup: float) -> float:
    """Learning rate of step 0 to steps - 1: a linear rise to `peak`, then a linear fall to almost nothing.

    The same numbers as `torch.optim.lr_scheduler.OneCycleLR` with linear annealing.

    Args:
        step: from 0.
        steps: length of the cycle.
        peak: largest rate.
        warmup: fraction of the cycle in which the rate rises.
    """
    start = peak / START_DIVISOR
    end = start / END_DIVISOR
    top = warmup * steps - 1  # may lie between steps, or before the first one
    if step <= top:
        return start + (peak - start) * step / top if top > 0 else peak
    return peak + (end - peak) * (step - top) / max(steps - 1 - top, 1e-12)
