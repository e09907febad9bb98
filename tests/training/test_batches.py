"""Batches: the same whoever makes them, and what happens to pairs that cannot be read."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.training.tiny import PLAIN, write_folder

from linstereo.data.augmentation import AugmentationSettings
from linstereo.data.formats.pfm import write_pfm
from linstereo.errors import InputError
from linstereo.training.batches import Shares, TrainingPairs, training_batches
from linstereo.training.feature_cache import image_key
from linstereo.training.sources import open_source

CROP = AugmentationSettings(crop_height=32, crop_width=64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data") / "pairs", count=5, known=0.9)


def make_pairs(folder, *, seed=0, settings=CROP, **options):
    return TrainingPairs([open_source(f"folder={folder}", seed=0)], seed=seed, settings=settings, **options)


def make_batches(folder, *, steps=range(4), workers=0, shares=None, first_draw=0, **options):
    pairs = make_pairs(folder, **options)
    shares = shares or Shares(3)
    return list(training_batches(pairs, shares, first_draw=first_draw, steps=steps, workers=workers))


def same(one, other):
    assert one.names == other.names
    for name in ("left", "right", "disparity", "valid", "occluded"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def test_any_number_of_workers_makes_the_same_batches(folder):
    reference = make_batches(folder)
    assert len(reference) == 4
    for workers in (1, 2):
        for expected, found in zip(reference, make_batches(folder, workers=workers), strict=True):
            same(expected[0], found[0])


def test_starting_later_gives_the_same_batches(folder):
    reference = make_batches(folder)
    assert len(reference) == 4
    assert not torch.equal(reference[2][0].left, reference[0][0].left)
    for expected, found in zip(reference[2:], make_batches(folder, steps=range(2, 4)), strict=True):
        same(expected[0], found[0])
    shifted = make_batches(folder, steps=range(3), first_draw=3)
    same(shifted[0][0], reference[1][0])


def test_parts_and_processes_share_a_batch(folder):
    whole = [batch.names for (batch,) in make_batches(folder, shares=Shares(8))]
    shared = [
        make_batches(folder, shares=Shares(8, parts=2, rank=rank, processes=2)) for rank in range(2)
    ]  # [rank][step][part]
    for step, names in enumerate(whole):
        found = [name for part in range(2) for rank in range(2) for name in shared[rank][step][part].names]
        assert tuple(found) == names
    with pytest.raises(InputError, match="batch of 6"):
        Shares(6, parts=2, processes=2)


def test_images_are_bytes_until_they_are_used(folder):
    (batch,) = make_batches(folder)[0]
    assert batch.left.dtype == torch.uint8
    assert batch.left.shape == (3, 3, 32, 64)
    assert batch.disparity.shape == batch.valid.shape == batch.occluded.shape == (3, 1, 32, 64)
    ready = batch.to(torch.device("cpu"))
    assert torch.equal(ready.left, batch.left.float() / 255)
    assert 0 <= ready.right.min() <= ready.right.max() <= 1


def test_large_disparities_are_not_trained_on(folder):
    limited = make_batches(folder, max_disparity=6.0)
    for (batch,), (free,) in zip(limited, make_batches(folder), strict=True):
        assert torch.equal(batch.valid, free.valid & (free.disparity <= 6))
    assert any(
        (free.valid & ~batch.valid).any() for (batch,), (free,) in zip(limited, make_batches(folder), strict=True)
    )


def test_occluded_pixels_are_known_where_the_dataset_knows_them(folder):
    sample = open_source(f"folder={folder}", seed=0).dataset[0]
    mask = np.zeros(sample.left.shape[:2], bool)
    mask[10:30, 20:60] = True

    class Labelled:
        name = "labelled"

        def __len__(self):
            return 1

        def __getitem__(self, index):
            return dataclasses.replace(sample, occluded=mask & sample.valid)

    pairs = make_pairs(folder, settings=AugmentationSettings(crop_height=64, crop_width=96, **PLAIN))
    pairs.sources = [pairs.sources[0]._replace(dataset=Labelled())]
    batch = pairs.collate([pairs._make(pairs.order[0], 0, ())])
    assert np.array_equal(batch.occluded[0, 0].numpy() & batch.valid[0, 0].numpy(), batch.occluded[0, 0].numpy())
    assert batch.occluded.any()


def test_a_limited_number_of_variants_takes_turns(folder):
    pairs = make_pairs(folder, variants=2, with_keys=True)
    seen: dict[str, list[str]] = {}
    for number in range(5 * 6):
        pair = pairs[number]
        assert pair.key == image_key(pair.sample.left, pair.sample.right)
        seen.setdefault(pair.sample.name, []).append(pair.key)
    for keys in seen.values():
        assert keys == keys[:2] * 3
        assert keys[0] != keys[1]
    endless = make_pairs(folder, with_keys=True)
    assert len({endless[number].key for number in range(30)}) == 30


@pytest.fixture
def damaged(tmp_path):
    folder = write_folder(tmp_path / "pairs", count=5)
    file = folder / "left" / "002.png"
    file.write_bytes(file.read_bytes()[:200])
    return folder


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_file_stops_training_and_is_named(damaged, workers):
    with pytest.raises(InputError) as told:
        make_batches(damaged, workers=workers)
    text = str(told.value)
    assert str(damaged / "left" / "002.png") in text
    assert "--skip-bad" in text
    assert "\n" not in text


def test_a_damaged_file_may_be_skipped_and_is_counted(damaged):
    reference = make_batches(damaged, skip_bad=True, steps=range(5))
    names = [name for (batch,) in reference for name in batch.names]
    skipped = [message for (batch,) in reference for message in batch.skipped]
    assert "002" not in names
    assert names.count("003") == 6  # its own three turns and those of the one before it
    assert len(skipped) == 3
    assert all("002.png" in message for message in skipped)
    for expected, found in zip(reference, make_batches(damaged, skip_bad=True, steps=range(5), workers=2), strict=True):
        same(expected[0], found[0])


def test_nothing_readable_is_an_error_even_then(damaged):
    for file in (damaged / "left").iterdir():
        file.write_bytes(b"no image")
    with pytest.raises(InputError, match="none of 5 pairs"):
        make_batches(damaged, skip_bad=True)


def test_pairs_without_ground_truth_are_refused(tmp_path):
    folder = write_folder(tmp_path / "pairs", count=2)
    for file in (folder / "disparity").iterdir():
        file.unlink()
    (folder / "disparity").rmdir()
    with pytest.raises(InputError, match="no ground truth"):
        make_batches(folder)


@pytest.mark.parametrize(("limit", "told"), [(0.0, "has no pixel with ground truth"), (0.5, "up to 0.5 px")])
def test_pairs_that_teach_nothing_are_refused(tmp_path, limit, told):
    """A loss of 0 over no pixel at all would pass for a success."""
    root = write_folder(tmp_path / "pairs", count=2)
    if not limit:
        for file in (root / "disparity").glob("*.pfm"):
            write_pfm(file, np.full((64, 96), np.nan, np.float32))
    assert told in make_pairs(root, max_disparity=limit)[0].message
