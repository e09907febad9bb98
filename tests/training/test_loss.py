"""Each term of Eq. 9 against a plain loop over pixels in float64."""

import math

import pytest
import torch

from linstereo.training.loss import gradient_term, l1_term, sequence_loss, smoothness_term


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    prediction, target = 30 * draw(2, 1, 13, 17), 30 * draw(2, 1, 13, 17)
    valid = draw(2, 1, 13, 17) > 0.3
    image = draw(2, 3, 13, 17)
    return prediction, target, valid, image


def neighbours(height, width):
    for y in range(height):
        for x in range(width):
            if x + 1 < width:
                yield "x", y, x, y, x + 1
            if y + 1 < height:
                yield "y", y, x, y + 1, x


def plain_l1(prediction, target, valid):
    errors = []
    for b, _, y, x in torch.nonzero(valid).tolist():
        errors.append(abs(float(prediction[b, 0, y, x] - target[b, 0, y, x])))
    return sum(errors) / len(errors)


def plain_smoothness(prediction, image, valid):
    parts = {"x": [], "y": []}
    for b in range(len(prediction)):
        for axis, y0, x0, y1, x1 in neighbours(*prediction.shape[-2:]):
            if valid[b, 0, y0, x0] and valid[b, 0, y1, x1]:
                edge = sum(abs(float(image[b, c, y0, x0] - image[b, c, y1, x1])) for c in range(3)) / 3
                step = abs(float(prediction[b, 0, y0, x0] - prediction[b, 0, y1, x1]))
                parts[axis].append(step * math.exp(-edge))
    return sum(sum(p) / len(p) for p in parts.values())


def plain_gradient(prediction, target, valid, scales):
    total = 0.0
    for k in range(scales):
        p, t, v = (a[..., :: 2**k, :: 2**k] for a in (prediction, target, valid))
        parts = {"x": [], "y": []}
        for b in range(len(p)):
            for axis, y0, x0, y1, x1 in neighbours(*p.shape[-2:]):
                if v[b, 0, y0, x0] and v[b, 0, y1, x1]:
                    step = p[b, 0, y1, x1] - p[b, 0, y0, x0] - (t[b, 0, y1, x1] - t[b, 0, y0, x0])
                    parts[axis].append(abs(float(step)))
        total += sum(sum(q) / len(q) if q else 0.0 for q in parts.values())
    return total


def test_l1_is_the_plain_mean_over_valid_pixels(batch):
    prediction, target, valid, _ = batch
    assert float(l1_term(prediction, target, valid)) == pytest.approx(plain_l1(prediction, target, valid), rel=1e-12)


def test_robust_errors_grow_with_the_logarithm(batch):
    prediction, target, valid, image = batch
    error = (prediction - target).abs()[valid]
    expected = 2.5 * torch.log(1 + error / 2.5).mean()
    loss = sequence_loss([prediction], target, valid, image, smoothness_weight=0, gradient_weight=0, robust=2.5)
    assert float(loss.total) == pytest.approx(float(expected), rel=1e-12)
    nearly_plain = l1_term(prediction, target, valid, robust=1e6)
    assert float(nearly_plain) == pytest.approx(plain_l1(prediction, target, valid), rel=1e-4)


def test_smoothness_is_the_plain_formula(batch):
    prediction, _, valid, image = batch
    expected = plain_smoothness(prediction, image, valid)
    assert float(smoothness_term(prediction, image, valid)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scales", [1, 4])
def test_gradient_is_the_plain_formula(batch, scales):
    prediction, target, valid, _ = batch
    expected = plain_gradient(prediction, target, valid, scales)
    assert float(gradient_term(prediction, target, valid, scales=scales)) == pytest.approx(expected, rel=1e-12)


def test_total_weights_iterations_and_terms_as_in_the_paper(batch):
    prediction, target, valid, image = batch
    predictions = [prediction, prediction + 1, prediction * 0.5]
    loss = sequence_loss(predictions, target, valid, image)
    expected = 0.0
    for t, p in enumerate(predictions, start=1):
        expected += 0.9 ** (3 - t) * (
            plain_l1(p, target, valid)
            + 0.001 * plain_smoothness(p, image, valid)
            + 0.01 * plain_gradient(p, target, valid, 4)
        )
    assert float(loss.total) == pytest.approx(expected, rel=1e-12)


def test_unknown_ground_truth_has_no_influence_on_value_or_gradient(batch):
    prediction, target, valid, image = batch
    prediction = prediction.requires_grad_()
    reference = sequence_loss([prediction], target, valid, image).total
    (reference_grad,) = torch.autograd.grad(reference, prediction)
    poisoned = torch.where(valid, target, torch.tensor(float("inf"), dtype=torch.float64))
    loss = sequence_loss([prediction], poisoned, valid, image).total
    (grad,) = torch.autograd.grad(loss, prediction)
    assert torch.equal(loss, reference)
    assert torch.equal(grad, reference_grad)
    isolated = ~valid
    assert torch.all(grad[isolated] == 0)


def test_perfect_constant_prediction_and_empty_ground_truth_give_zero(batch):
    _, target, valid, image = batch
    flat = torch.full_like(target, 7.0)
    assert float(sequence_loss([flat], flat, valid, image).total) == 0
    assert float(sequence_loss([flat], target, torch.zeros_like(valid), image).total) == 0


def test_smoothness_forgives_steps_at_image_edges():
    step = torch.zeros(1, 1, 4, 6, dtype=torch.float64)
    step[..., 3:] = 5
    flat_image = torch.zeros(1, 3, 4, 6, dtype=torch.float64)
    edge_image = (step / 5).expand(1, 3, 4, 6)
    everywhere = torch.ones_like(step, dtype=torch.bool)
    hard, soft = smoothness_term(step, flat_image, everywhere), smoothness_term(step, edge_image, everywhere)
    assert float(soft / hard) == pytest.approx(math.exp(-1), rel=1e-12)
