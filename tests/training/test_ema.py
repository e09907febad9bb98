"""Averaged weights against a loop in float64."""

import torch

from linstereo.training.ema import WeightAverage


def steps(count, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 4, generator=generator) for _ in range(count)]


def test_equals_a_loop_in_float64():
    values = steps(300)
    weight = torch.nn.Parameter(values[0].clone())
    average = WeightAverage({"w": weight}, decay=0.97)
    expected = values[0].double()
    for n, value in enumerate(values[1:]):
        with torch.no_grad():
            weight.copy_(value)
        average.update()
        decay = min(0.97, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * value.double()
    assert average.updates == 299
    torch.testing.assert_close(average.average["w"].double(), expected, rtol=1e-5, atol=1e-6)


def test_without_decay_it_follows_the_weights_exactly():
    weight = torch.zeros(2, 2)
    average = WeightAverage({"w": weight}, decay=0.0)
    for value in steps(3):
        weight.copy_(value[:2, :2])
        average.update()
        assert torch.equal(average.average["w"], weight)


def test_swapping_in_and_out_gives_back_the_same_bits():
    weight = torch.nn.Parameter(torch.randn(5))
    average = WeightAverage({"w": weight}, decay=0.5)
    with torch.no_grad():
        weight.add_(1)
    average.update()
    kept, mean = weight.detach().clone(), average.average["w"].clone()
    with average.swapped():
        assert torch.equal(weight, mean)
    assert torch.equal(weight, kept)
    assert torch.equal(average.average["w"], mean)
    average.apply()
    assert torch.equal(weight, mean)


def test_a_stored_average_goes_on():
    first, second = torch.zeros(4), torch.zeros(4)
    one = WeightAverage({"w": first}, decay=0.9)
    for value in (1.0, 2.0, 3.0):
        first.fill_(value)
        one.update()
    other = WeightAverage({"w": second}, decay=0.9)
    other.load(one.average, updates=one.updates)
    first.fill_(7.0)
    second.fill_(7.0)
    one.update()
    other.update()
    assert torch.equal(one.average["w"], other.average["w"])
