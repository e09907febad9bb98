import itertools
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linstereo.errors import InputError
from linstereo.files import (
    MAX_PIXELS,
    atomic_path,
    check_pixel_count,
    make_parent,
    read_file,
    read_json,
    remove_temporaries,
    write_file,
    write_json,
)

as_root = pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read and write everything")


def test_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert read_file(tmp_path / "a") == b"abc"
    assert read_file(str(tmp_path / "a")) == b"abc"


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.png does not exist"):
        read_file(tmp_path / "nothing.png")


def test_file_used_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with pytest.raises(InputError, match=r"a/b\.png cannot be read: Not a directory"):
        read_file(tmp_path / "a" / "b.png")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        read_file(tmp_path)


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    with pytest.raises(InputError, match=r"a\.png is empty"):
        read_file(tmp_path / "a.png")


def test_device() -> None:
    with pytest.raises(InputError, match="/dev/zero is not a regular file"):
        read_file("/dev/zero")


def test_pipe_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is not a regular file"):
        read_file(tmp_path / "pipe")


def test_null_byte() -> None:
    with pytest.raises(InputError, match="cannot be a file name"):
        read_file("a\0b")
    with pytest.raises(InputError, match="cannot be a file name"), atomic_path("a\0b"):
        pass


@as_root
def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "a").chmod(0)
    with pytest.raises(InputError, match="may not be read"):
        read_file(tmp_path / "a")


def test_permission_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.png").write_bytes(b"x")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"a\.png may not be read by this user"):
        read_file(tmp_path / "a.png")


def test_pixel_count() -> None:
    check_pixel_count(width=MAX_PIXELS, height=1, path="a")
    for width, height in ((MAX_PIXELS + 1, 1), (2**31, 2**31), (0, 5), (5, 0), (-3, 4)):
        with pytest.raises(InputError, match=f"a.png says it is {width} x {height} pixels"):
            check_pixel_count(width=width, height=height, path="a.png")


def test_atomic_path_writes(tmp_path: Path) -> None:
    target = tmp_path / "out.pfm"
    with atomic_path(target) as temporary:
        assert temporary.suffix == ".pfm"
        assert temporary.parent == tmp_path
        temporary.write_bytes(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_atomic_path_keeps_the_old_file_on_failure(tmp_path: Path) -> None:
    target = tmp_path / "out.pfm"
    target.write_bytes(b"old")

    def fail() -> None:
        with atomic_path(target) as temporary:
            temporary.write_bytes(b"half")
            raise KeyError("anything")

    with pytest.raises(KeyError):
        fail()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


class Signal(BaseException):
    """What a handler of a signal raises, wherever the program is just then."""


def interrupted(action: Callable[[], None], at: int) -> bool:
    """Whether `action` was ended by an exception before the `at`-th line or call that it comes to."""
    left = at

    def trace(_frame: object, event: str, _value: object) -> Callable[..., Any]:
        nonlocal left
        left -= event in ("call", "line")
        if left == 0:
            raise Signal
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except Signal:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_signal_at_any_moment_leaves_a_whole_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "views.json"
    moments = itertools.count(1)
    results = []
    target.write_bytes(b"old")
    while interrupted(lambda: write_file(target, b"new"), next(moments)):
        assert list(tmp_path.iterdir()) == [target]
        results.append(target.read_bytes())
        target.write_bytes(b"old")
    assert results.count(b"old") > 20
    assert results.count(b"new") > 0
    assert set(results) == {b"old", b"new"}


def test_atomic_path_respects_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "a") as temporary:
            temporary.write_bytes(b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_atomic_path_undoes_what_private_writers_do(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    with atomic_path(tmp_path / "weights") as temporary:
        temporary.write_bytes(b"x")
        temporary.chmod(0o600)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "weights")}
    assert len(modes) == 1


def test_atomic_path_errors_name_the_target(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"cannot write .*no/out\.pfm: No such file"),
        atomic_path(tmp_path / "no/out.pfm"),
    ):
        pass
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(InputError, match=f"{name}: it is not a regular file"), atomic_path(tmp_path / name):
            pass

    def disk_full() -> None:
        with atomic_path(tmp_path / "full.pfm"):
            raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"cannot write .*full\.pfm: No space left on device"):
        disk_full()
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "pipe"}


def test_long_names_work(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 250 + ".pfm")
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"x")
    assert target.exists()


def test_text_and_bytes_are_written(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "größer\n")
    assert read_file(tmp_path / "a") == "größer\n".encode()
    write_file(tmp_path / "a", b"\xff\0")
    assert read_file(tmp_path / "a") == b"\xff\0"


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = {"name": "größer", "values": [1, 0.1, None, True], "more": {"deep": {}}}
    for indent in (None, 1, 2):
        write_json(tmp_path / "a.json", content, indent=indent)
        assert read_json(tmp_path / "a.json", needed=content.keys()) == content
    assert (tmp_path / "a.json").read_text(encoding="utf-8").startswith('{\n  "name": "größer",\n')
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"value": float("nan")})
    assert read_json(tmp_path / "a.json") == content


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"{", "is not valid JSON: .*; make it again"),
        (b"\xff\xfe\x00", "is not valid JSON: .*; make it again"),
        (b"[" * 5000, "is not valid JSON: .*; make it again"),
        (b"[]", "does not hold a JSON object; make it again"),
        (b"{}", "is damaged, it holds no 'seed'; make it again"),
    ],
)
def test_files_that_hold_no_json_object(tmp_path: Path, text: bytes, told: str) -> None:
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(InputError, match=rf"a\.json {told}"):
        read_json(tmp_path / "a.json", needed=["seed"], remedy="make it again")


def test_the_folder_of_a_file_is_made(tmp_path: Path) -> None:
    for _ in range(2):
        assert make_parent(tmp_path / "a/b/c.png") == tmp_path / "a/b/c.png"
    assert (tmp_path / "a/b").is_dir()
    assert not (tmp_path / "a/b/c.png").exists()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot make the folder .*file: .*; choose another"):
        make_parent(tmp_path / "file/c.png")


def test_only_what_was_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    kept = {tmp_path / name for name in ("a.png", ".hidden", ".a-0123.png", "a-0123456789abcdef.png")}
    half = [tmp_path / ".a-0123456789abcdef.png", tmp_path / "below/.b-0123456789abcdef"]
    for path in (*kept, *half):
        path.touch()
    remove_temporaries(tmp_path)
    assert not half[0].exists()
    assert half[1].exists()
    remove_temporaries(tmp_path, below=True)
    assert set(tmp_path.rglob("*")) == {*kept, tmp_path / "below"}
    with atomic_path(tmp_path / "out.safetensors") as temporary:
        remove_temporaries(tmp_path)  # as if that process had been killed
        assert not temporary.exists()
        temporary.touch()
