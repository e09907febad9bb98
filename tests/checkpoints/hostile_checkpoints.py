"""Checkpoints that claim what is not so: `python hostile_checkpoints.py FOLDER` tries to load each, with little memory.

Prints JSON: for every case whether it was refused in the proper way, what was said, and by how many bytes the peak
memory of the process rose. Run in a process of its own, because what is wrong here takes all memory or never ends.
"""

import json
import os
import resource
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from linstereo import InputError, LinStereo
from linstereo.checkpoints.checkpoint import bundled_weights

MEMORY = 1 << 30  # bytes of address space that loading may take beyond what the imports have taken

SETTINGS: dict[str, dict[str, Any]] = {
    "no heads": {"heads": 0},
    "a million heads": {"heads": 1_000_000},
    "heads as text": {"heads": "4"},
    "heads as boolean": {"heads": True},
    "heads as list": {"heads": [4]},
    "mlp_ratio nan": {"mlp_ratio": float("nan")},
    "mlp_ratio infinite": {"mlp_ratio": float("inf")},
    "mlp_ratio negative": {"mlp_ratio": -1.0},
    "mlp_ratio null": {"mlp_ratio": None},
    "hidden 1e7": {"hidden": 10_000_000},
    "hidden 1e7 as float": {"hidden": 1e7},
    "hidden negative": {"hidden": -48},
    "hidden of 4000 digits": {"hidden": 10**4000},
    "coarse_hidden 1e7": {"coarse_hidden": 10_000_000},
    "a million blocks": {"blocks": 1_000_000},
    "large in all ways": {"hidden": 1024, "blocks": 32, "mlp_ratio": 16},
    "large, but within the ranges": {"hidden": 1024, "coarse_hidden": 1024, "blocks": 2, "mlp_ratio": 8},
    "other blocks than stored": {"blocks": 2},
    "iterations 1e9": {"iterations": 1_000_000_000},
    "iterations as text": {"iterations": "8"},
    "radius 1e6": {"radius": 1_000_000},
    "levels 1e6": {"levels": 1_000_000},
    "feature_width 1e6": {"feature_width": 1_000_000},
    "guide 1e6": {"guide": 1_000_000},
    "working_pixels 1e30": {"working_pixels": 10**30},
    "scales 99": {"scales": 99},
    "boolean as text": {"position_encoding": "false"},
    "boolean as number": {"local_encoding": 0},
    "backbone as number": {"backbone": 7},
    "backbone as list": {"backbone": ["vitb"]},
    "unknown setting": {"depth": 3},
}


def content(header: Any, *, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def header_of(file: Path) -> tuple[dict[str, Any], bytes]:
    stored = file.read_bytes()
    end = 8 + struct.unpack("<Q", stored[:8])[0]
    return json.loads(stored[8:end]), stored[end:]


def with_tensor(header: dict[str, Any], **entry: Any) -> dict[str, Any]:
    return header | {"residual_head.out.bias": header["residual_head.out.bias"] | entry}


def write_cases(folder: Path) -> dict[str, Path]:
    """One file, or what pretends to be one, for each case."""
    header, data = header_of(bundled_weights())
    settings = json.loads(header["__metadata__"]["config"])

    def with_config(text: str) -> bytes:
        return content(header | {"__metadata__": {"format": "linstereo/1", "config": text}}, data=data)

    nested = "[" * 100_000
    files = {name: with_config(json.dumps(settings | changes)) for name, changes in SETTINGS.items()} | {
        "nested settings": with_config(nested + "]" * 100_000),
        "nested value": with_config('{"hidden": ' + nested + "]" * 100_000 + "}"),
        "overflowing number": with_config(json.dumps(settings).replace('"mlp_ratio": 2.0', '"mlp_ratio": 1e999')),
        "number of 10000 digits": with_config('{"hidden": ' + "9" * 10_000 + "}"),
        "settings are a list": with_config("[1, 2]"),
        "settings are null": with_config("null"),
        "settings are empty": with_config(""),
        "no settings": content(header | {"__metadata__": {"format": "linstereo/1"}}, data=data),
        "no metadata": content({k: v for k, v in header.items() if k != "__metadata__"}, data=data),
        "metadata as list": content(header | {"__metadata__": [1]}, data=data),
        "metadata as numbers": content(header | {"__metadata__": {"format": 1, "config": 2}}, data=data),
        "nested header": content(nested.encode().replace(b"[", b"{", 1)),
        "header of 2**63 bytes": content(header, data=data, length=1 << 63),
        "header of 90 MB": content(header, data=data, length=90_000_000),
        "header of 4 MB": content(header, data=data[:1000], length=4_000_000),
        "shape as text": content(with_tensor(header, shape="wide"), data=data),
        "shape negative": content(with_tensor(header, shape=[-1]), data=data),
        "shape enormous": content(with_tensor(header, shape=[1 << 60, 1 << 60]), data=data),
        "offsets enormous": content(with_tensor(header, data_offsets=[0, 1 << 62]), data=data),
        "entry is a list": content(header | {"residual_head.out.bias": [1]}, data=data),
        "empty": b"",
        "eight zeros": bytes(8),
    }
    paths = {}
    for name, text in files.items():
        paths[name] = folder / f"{name}.safetensors"
        paths[name].write_bytes(text)
    paths["a terabyte"] = folder / "terabyte.safetensors"
    announced = with_tensor(header, shape=[1 << 38], data_offsets=[len(data), len(data) + (1 << 40)])
    paths["a terabyte"].write_bytes(content(announced))
    os.truncate(paths["a terabyte"], paths["a terabyte"].stat().st_size + len(data) + (1 << 40))
    paths["pipe"] = folder / "pipe.safetensors"
    os.mkfifo(paths["pipe"])
    paths["folder"] = folder / "folder.safetensors"
    paths["folder"].mkdir()
    paths["device"] = Path("/dev/zero")
    return paths


def attempt(load: Callable[[], object]) -> tuple[bool, str]:
    try:
        load()
    except InputError as error:
        return True, str(error)
    except BaseException as error:
        return False, repr(error)[:500]
    return False, "it was accepted"


def main() -> None:
    paths = write_cases(Path(sys.argv[1]))
    LinStereo.from_pretrained(bundled_weights())  # what a good checkpoint needs is not counted
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    results = {}
    for name, path in paths.items():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        refused, message = attempt(lambda path=path: LinStereo.from_pretrained(path))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        results[name] = {"path": str(path), "refused": refused, "message": message, "grown": grown}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
