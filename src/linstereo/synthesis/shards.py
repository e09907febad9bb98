"""Work that several machines share without knowing of each other: shard i of n does every n-th piece."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from linstereo.errors import InputError

MAX_SHARDS = 100_000
Piece = TypeVar("Piece")


@dataclass(frozen=True)
class Shard:
    """Shard `number` of `count`, counted from 1; by default the whole."""

    number: int = 1
    count: int = 1

    @property
    def part(self) -> str | None:
        """Its name for `runs.RunFolder`; None for the whole."""
        return None if self.count == 1 else f"shard-{self.number}-of-{self.count}"

    def share(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Every `count`-th piece, beginning with piece `number`."""
        return list(pieces[self.number - 1 :: self.count])

    def size(self, count: int) -> int:
        """How many of `count` pieces are in its share."""
        return max(0, -(-(count - self.number + 1) // self.count))


def parse_shard(text: str) -> Shard:
    """Shard of a text such as "3/8": the third of eight."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count <= MAX_SHARDS:
        raise InputError(f"{text!r} is not a shard; write I/N with I from 1 to N, such as 3/8 for the third of eight")
    return Shard(number, count)
