"""The official numbers of pairs: one for each benchmark that has one, the same as its rules say in words."""

import re

import pytest

from linstereo.data.datasets.official_counts import OfficialCount, official_count
from linstereo.evaluation.protocol import get_protocol, protocol_names

# the name under which the protocol's split is opened, where that is not <dataset>/<split>
OPENED_AS = {"eth3d": "eth3d/two_view_training"}
KNOWN = {
    "sceneflow": 4370,
    "sceneflow-cleanpass": 4370,
    "kitti2012": 194,
    "kitti2015": 200,
    "middlebury": 15,
    "middlebury-f": 15,
    "middlebury-q": 15,
    "middlebury2001": 8,
    "middlebury2003": 2,
    "middlebury2005": 6,
    "middlebury2006": 21,
    "eth3d": 27,
    "booster": 228,
    "tartanair-uw": 13583,
    "squid": 57,
}


@pytest.mark.parametrize("name", protocol_names())
def test_every_benchmark_with_a_fixed_number_of_pairs_has_it(name: str) -> None:
    protocol = get_protocol(name)
    official = official_count(OPENED_AS.get(name, f"{protocol.dataset}/{protocol.split}"))
    if name not in KNOWN:
        assert name in ("tank", "seastereo", "folder", "folder-depth")
        assert official is None
        return
    assert official.count == KNOWN[name]
    assert official.unit in ("pairs", "scenes")
    assert official.source
    in_words = [int(number.replace(",", "")) for number in re.findall(r"\b\d[\d,]*\b", protocol.pairs)]
    if in_words and name not in ("middlebury2001",):
        assert official.count in in_words


def test_coverage_in_words() -> None:
    official = OfficialCount(13583, "pairs", "somewhere")
    assert official.coverage(3) == "3 of 13,583 pairs"
    assert official.coverage(13583) == "13,583 of 13,583 pairs"
    assert official.coverage(13584) == "13,584 pairs instead of 13,583"
    assert official_count("nothing/known") is None
