"""On a local Ray cluster of two nodes: a small plan of SeaStereo and a few pairs of the engine."""

import hashlib

import pytest
from tests.synthesis.seastereo import fake_blender

from linstereo.errors import InputError
from linstereo.synthesis.engine import EngineSettings
from linstereo.synthesis.ray_cluster import check_address
from linstereo.synthesis.seastereo.plan import all_configurations
from linstereo.synthesis.seastereo.ray_farm import RayFarm
from linstereo.synthesis.seastereo.render import Job, RenderSettings, render_plan
from linstereo.synthesis.seastereo.verify import verify
from linstereo.synthesis.shards import Shard
from linstereo.synthesis.writer import WriterSettings, write_dataset


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.add_node(num_cpus=1)
    yield nodes.address
    ray.shutdown()
    nodes.shutdown()


def digests(root, suffixes):
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.suffix in suffixes
    }


def test_a_plan_is_rendered_though_processes_are_killed(cluster, tmp_path):
    program = fake_blender.install(tmp_path / "fake")
    (program.parent / "kill_parent").touch()
    (program.parent / "die_on").write_text("39")
    settings = RenderSettings(height=36, width=48)
    wanted = [c for c in all_configurations(0) if c.name in ("t1_f24_b120_II_shallow_1", "t4_f35_b120_I_deep_2")]
    told = []
    report = render_plan(
        tmp_path / "out",
        settings,
        wanted,
        frames=3,
        runner=RayFarm(cluster),
        job=lambda root: Job(root=root, settings=settings, blender=str(program)),
        on_frame=lambda done, total: told.append((done, total)),
    )
    assert report.written == 6
    assert report.died == 1
    assert told[-1] == (6, 6)
    assert not (program.parent / "kill_parent").exists()
    findings = verify(tmp_path / "out")
    assert (findings.expected, findings.present, findings.problems) == (6, 6, [])


def test_pairs_of_the_engine_are_the_same_bytes(cluster, tmp_path):
    settings = WriterSettings(engine=EngineSettings(height=32, width=64))
    assert write_dataset(tmp_path / "ray", settings, count=3, ray=cluster) == 3
    for number in (1, 2):
        write_dataset(tmp_path / "here", settings, count=3, shard=Shard(number, 2))
    suffixes = (".png", ".pfm", ".json")
    assert digests(tmp_path / "ray", suffixes) == digests(tmp_path / "here", suffixes)
    assert len(digests(tmp_path / "ray", (".pfm",))) == 6


@pytest.mark.parametrize("address", ["", "no-such-thing", "host", "host:port", "http://a:1 b"])
def test_addresses_that_are_none_are_told(address):
    with pytest.raises(InputError, match="is not the address"):
        check_address(address)
