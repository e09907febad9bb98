"""Fixtures shared by all tests."""

import signal
from pathlib import Path

import cv2
import pytest
import torch
from hypothesis import HealthCheck, settings

STEREO_DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "stereo"


settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # inherited by a job in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the test that takes minutes, so that the others run beside it and not before it."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")


@pytest.fixture(scope="session")
def stereo_data() -> Path:
    """Folder of real stereo pairs with ground truth, kept beside the project and not part of it."""
    if not STEREO_DATA.is_dir():
        pytest.skip("the real stereo pairs (../shared/data/stereo beside the project) are not here")
    return STEREO_DATA


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tests run side by side in several processes; more threads than cores would slow all of them down."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
