"""How many pairs the official splits of the datasets have, so that a part of one never passes for the whole.

The numbers and where each comes from are in `official_counts.json` beside this module.
"""

import functools
import json
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class OfficialCount:
    """What a split officially holds: `count` of `unit` ("pairs" or "scenes" of one pair each), as `source` says."""

    count: int
    unit: str
    source: str

    def coverage(self, found: int) -> str:
        """How much of the split `found` of its pairs are, in words, such as "3 of 15 scenes"."""
        if found > self.count:
            return f"{found:,} {self.unit} instead of {self.count:,}"
        return f"{found:,} of {self.count:,} {self.unit}"


def official_count(dataset: str) -> OfficialCount | None:
    """The official count of a dataset; None if it has no fixed number of pairs, or none that is published.

    Args:
        dataset: its name (`StereoDataset.name`), such as "middlebury/trainingH".
    """
    return _counts().get(dataset)


@functools.cache
def _counts() -> dict[str, OfficialCount]:
    groups = json.loads((files("linstereo.data.datasets") / "official_counts.json").read_text(encoding="utf-8"))
    return {
        split: OfficialCount(group["count"], group["unit"], group["source"])
        for group in groups
        for split in group["splits"]
    }
