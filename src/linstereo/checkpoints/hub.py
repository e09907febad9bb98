"""Finding a file of weights: on disk, or on the Hugging Face hub, from where it is downloaded."""

import os
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from linstereo.checkpoints.checkpoint_file import PICKLE_SUFFIXES
from linstereo.errors import InputError

HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
PROBE_SECONDS = 3.0  # how long each of the attempts to reach the hub may take
PROBE_ATTEMPTS = 2


def find_checkpoint(
    name_or_path: str | os.PathLike[str], *, file_name: str, hub_names: Mapping[str, str] | None = None
) -> Path:
    """The weights file behind a path or a hub name, downloaded if need be.

    Args:
        name_or_path: a file, a folder that holds `file_name`, or a repository of the Hugging Face hub that does. What
            exists on disk goes first.
        file_name: the file to look for in folders and repositories.
        hub_names: short names of repositories.
    """
    name = str(name_or_path)
    try:
        path = Path(name_or_path).expanduser()
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, RuntimeError) as error:  # too long a name, or the home folder of nobody
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"there is no checkpoint {reprlib.repr(name)} ({reason}); check the path") from error
    if is_folder:
        if not (path / file_name).is_file():
            raise InputError(f"the folder {path} holds no {file_name}; give the weights file itself")
        return path / file_name
    if exists:
        return path
    short = hub_names or {}
    repository = short.get(name.upper(), name)
    is_hub_name = HUB_NAME.fullmatch(repository) and path.suffix not in (".safetensors", *PICKLE_SUFFIXES)
    if isinstance(name_or_path, str) and is_hub_name:
        return _download(repository, file_name)
    models = f"one of the hub models {', '.join(short)}" if short else "the name OWNER/MODEL of a hub model"
    raise InputError(f"there is no checkpoint {name!r}; give the path of a {file_name} or {models}")


def _download(repository: str, file_name: str) -> Path:
    by_hand = f"download its {file_name} by other means and give that file's path"
    try:
        reachable = _hub_answers(huggingface_hub.hf_hub_url(repository, file_name))
        return Path(huggingface_hub.hf_hub_download(repository, file_name, local_files_only=not reachable))
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"there is no public model {repository!r} on the Hugging Face hub, nor such a path here; "
            f"check the name, or {by_hand}"
        ) from error
    except LocalEntryNotFoundError as error:
        raise InputError(
            f"the Hugging Face hub cannot be reached and {repository!r} is not in the local cache; check the network, "
            f"the proxy (HTTPS_PROXY) and that HF_HUB_OFFLINE is not set, or {by_hand}"
        ) from error
    except EntryNotFoundError as error:
        raise InputError(
            f"the hub model {repository!r} has no file {file_name}; choose another model, or give a path"
        ) from error
    except (HfHubHTTPError, OSError, RuntimeError) as error:  # refused, interrupted, or no room to store it
        raise InputError(
            f"downloading {repository!r} from the Hugging Face hub failed ({type(error).__name__}); {by_hand}"
        ) from error


def _hub_answers(url: str) -> bool:
    """Whether anything at all comes back from the hub within a few seconds.

    The download itself would try for half a minute, and print a warning for every attempt, before it falls back to the
    local cache.
    """
    for _ in range(PROBE_ATTEMPTS):
        try:
            huggingface_hub.get_session().head(url, timeout=PROBE_SECONDS)
        except Exception:  # whatever the HTTP library of the installed hub client raises, or its offline mode
            continue
        return True
    return False
