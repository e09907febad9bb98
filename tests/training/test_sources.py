"""Where pairs come from and in which order."""

import copy
from collections import Counter

import numpy as np
import pytest
from tests.training.tiny import write_folder

from linstereo.errors import InputError
from linstereo.training.sources import DrawOrder, Source, open_source, open_sources


class Numbers:
    """A dataset that is only counted."""

    name = "numbers"

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


def sources(*entries):
    return [Source(f"source{i}", Numbers(n), weight, endless) for i, (n, weight, endless) in enumerate(entries)]


def test_every_pair_comes_once_before_any_comes_again():
    order = DrawOrder(sources((7, 1, False)), seed=3)
    draws = [order[i] for i in range(21)]
    for epoch in range(3):
        part = draws[7 * epoch : 7 * epoch + 7]
        assert sorted(draw.index for draw in part) == list(range(7))
        assert {draw.epoch for draw in part} == {epoch}
    assert [draw.index for draw in draws[:7]] != [draw.index for draw in draws[7:14]]


def test_the_same_with_several_sources_and_the_factors_hold():
    order = DrawOrder(sources((5, 3, False), (11, 1, False), (1 << 40, 1, True)), seed=0)
    draws = [order[i] for i in range(1000)]
    counts = Counter(draw.source for draw in draws)
    assert counts == {0: 600, 1: 200, 2: 200}
    for source, length in ((0, 5), (1, 11)):
        indices = [draw.index for draw in draws if draw.source == source]
        for start in range(0, len(indices) - length, length):
            assert sorted(indices[start : start + length]) == list(range(length))
    assert [draw.index for draw in draws if draw.source == 2] == list(range(200))


def test_a_draw_depends_on_its_number_alone():
    entries = ((50, 2, False), (1 << 40, 1, True))
    one, other = DrawOrder(sources(*entries), seed=1), DrawOrder(sources(*entries), seed=1)
    numbers = np.random.default_rng(0).permutation(400).tolist()
    expected = {i: one[i] for i in range(400)}
    assert all(other[i] == expected[i] for i in numbers)
    twin = copy.deepcopy(one)  # as when it is sent to another process
    assert [twin[i] for i in range(50)] == [one[i] for i in range(50)]
    different = DrawOrder(sources(*entries), seed=2)
    assert [different[i] for i in range(400)] != [one[i] for i in range(400)]


def test_folders_with_factor_and_split(tmp_path):
    folder = write_folder(tmp_path / "pairs", count=3)
    (folder / "splits").mkdir()
    (folder / "splits" / "two.txt").write_text("000\n002\n")
    assert len(open_source(f"folder={folder}", seed=0).dataset) == 3
    source = open_source(f"2.5*folder:two={folder}", seed=0)
    assert len(source.dataset) == 2
    assert (source.weight, source.endless) == (2.5, False)


def test_rendered_pairs_take_settings():
    pytest.importorskip("embreex")
    source = open_source("synth:height=64,width=96,underwater=0.5,seed=5,count=4", seed=1)
    assert (len(source.dataset), source.endless) == (4, False)
    sample = source.dataset[1]
    assert sample.left.shape == (64, 96, 3)
    other_seed = open_source("synth:height=64,width=96,underwater=0.5,count=4", seed=1)
    assert not np.array_equal(sample.left, other_seed.dataset[1].left)
    assert open_source("synth", seed=1).endless


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty"),
        ("folder", "NAME=ROOT"),
        ("folder=", "NAME=ROOT"),
        ("folder:=/x", "NAME:SPLIT=ROOT"),
        ("snyth", "or synth"),
        ("2*folder=/x:two[:80%]", "write folder:two=/x"),
        ("nothing=/x", "there is no dataset 'nothing'"),
        ("0*folder=/x", "factor above 0"),
        ("folder=/does/not/exist", "/does/not/exist"),
        ("synth:heigt=3", "height"),
        ("synth:height=tall", "height"),
        ("synth:height=-5", "16 to 16384 px a side"),
        ("synth:seed=-5", "negative"),
    ],
)
def test_a_bad_source_is_told_in_one_sentence(text, expected):
    if text.startswith("synth"):
        pytest.importorskip("embreex")
    with pytest.raises(InputError) as told:
        open_source(text, seed=0)
    assert expected in str(told.value)
    assert "\n" not in str(told.value)


def test_no_source_at_all():
    with pytest.raises(InputError, match="there is no training data"):
        open_sources((), seed=0, what="training data")


@pytest.mark.parametrize(
    ("part", "names"),
    [("[:80%]", "0123"), ("[80%:]", "4"), ("[20%:60%]", "12"), ("[:]", "01234"), ("[:95%]", "0123"), ("[95%:]", "4")],
)
def test_a_part_of_a_source(tmp_path, part, names):
    root = write_folder(tmp_path, count=5)
    whole = open_source(f"folder={root}", seed=0).dataset
    source = open_source(f"2*folder:all={root}{part}", seed=0)
    assert source.weight == 2
    assert len(source.dataset) == len(names)
    for i, name in enumerate(names):
        assert source.dataset.sample_name(i) == whole.sample_name(int(name)) == source.dataset[i].name


@pytest.mark.parametrize("part", ["[60%:40%]", "[:101%]", "[50%:50%]", "[:0%]"])
def test_no_part_is_refused(tmp_path, part):
    with pytest.raises(InputError, match="is no part of its pairs"):
        open_source(f"folder={write_folder(tmp_path, count=2)}{part}", seed=0)


def test_a_part_without_a_pair_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no pairs"):
        open_source(f"folder={write_folder(tmp_path, count=2)}[:10%]", seed=0)


def test_rendered_pairs_without_end_have_no_part():
    with pytest.raises(InputError, match=r"pairs without end; give their number with count=N"):
        open_source("synth[:50%]", seed=0)
    assert len(open_source("synth:count=4[:50%]", seed=0).dataset) == 2
