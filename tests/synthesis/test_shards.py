import pytest

from linstereo.errors import InputError
from linstereo.runs import RunFolder
from linstereo.synthesis.shards import Shard, parse_shard


def test_shards_are_a_partition():
    pieces = list(range(23))
    shares = [Shard(k, 5).share(pieces) for k in range(1, 6)]
    assert sorted(piece for share in shares for piece in share) == pieces
    assert [Shard(k, 5).size(23) for k in range(1, 6)] == [len(share) for share in shares]
    assert Shard().share(pieces) == pieces


def test_parsing():
    assert parse_shard("3/8") == Shard(3, 8)


@pytest.mark.parametrize("text", ["", "0/3", "4/3", "1", "1/0", "-1/3", "a/b", "1/9999999"])
def test_texts_that_are_no_shard_are_told(text):
    with pytest.raises(InputError, match="is not a shard"):
        parse_shard(text)


def test_only_the_same_work_is_kept_out(tmp_path):
    def opened(shard):
        return RunFolder.open(tmp_path, part=shard.part)

    with opened(Shard(1, 2)):
        with opened(Shard(2, 2)) as run:
            run.settle({"seed": 0})
        with pytest.raises(InputError, match="another run"), opened(Shard(1, 2)):
            pass
        with pytest.raises(InputError, match="another run"), opened(Shard()):
            pass
    with opened(Shard()), pytest.raises(InputError, match="another run"), opened(Shard(1, 2)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_a_shard_leaves_the_half_written_files_of_others(tmp_path):
    half = tmp_path / ".000001-0123456789abcdef.png"
    half.touch()
    with RunFolder.open(tmp_path, part=Shard(1, 2).part) as run:
        run.settle({"seed": 0})
    assert half.exists()
    with RunFolder.open(tmp_path) as run:
        run.settle({"seed": 0})
    assert not half.exists()
