import pytest
from tests.synthesis.seastereo import fake_blender as fake


@pytest.fixture
def fake_blender(tmp_path):
    """A program that stands in for Blender, see `tests.synthesis.seastereo.fake_blender`."""
    return fake.install(tmp_path / "fake")
