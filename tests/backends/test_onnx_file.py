"""Files that are not what they should be are refused in one sentence, and nothing that they name is read."""

import onnx
import pytest

import linstereo
from linstereo.backends import graph_engine, onnx_file
from linstereo.backends.exporting import bundled_pair
from linstereo.backends.onnx_file import OPERATORS, read_onnx
from linstereo.errors import InputError, MissingExtraError


def refused(path, *, by=linstereo.load) -> str:
    with pytest.raises(InputError) as caught:
        by(path)
    message = str(caught.value)
    assert str(path) in message or "ONNX Runtime" in message
    assert "\n" not in message
    return message


@pytest.fixture
def changed(tiny_file, tmp_path):
    """Write the file again after a change of its model; returns its path."""

    def write(change):
        model = onnx.load_model_from_string(tiny_file.read_bytes())
        change(model)
        path = tmp_path / "changed.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return write


def test_a_whole_file_says_what_it_is(tiny_file):
    file = read_onnx(tiny_file)
    assert file.iterations == 1
    assert file.config.working_pixels == 96 * 128
    assert file.trained
    facts = {entry.key: entry.value for entry in onnx.load(tiny_file).metadata_props}
    assert facts["licence"] == "that of the checkpoint"
    assert facts["padded_to"] == "32"


@pytest.mark.parametrize("content", [b"hello", b"\x00" * 100, b"\x80\x04pickle", b"PK\x03\x04"])
def test_other_files(content, tmp_path):
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    assert "linstereo export" in refused(path)


def test_no_file_a_folder_and_an_empty_file(tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "empty.onnx").touch()
    assert "does not exist" in refused(tmp_path / "missing.onnx")
    assert "is a folder" in refused(tmp_path / "folder.onnx")
    assert "is empty" in refused(tmp_path / "empty.onnx")


@pytest.mark.parametrize("share", [0.001, 0.5, 0.99])
def test_a_file_cut_short(share, tiny_file, tmp_path):
    content = tiny_file.read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(content[: int(share * len(content))])
    assert "linstereo export" in refused(path)


def test_a_model_of_somebody_else(tmp_path):
    helper = onnx.helper
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result])
    path = tmp_path / "foreign.onnx"
    onnx.save(helper.make_model(graph), path)
    assert "of another kind" in refused(path)


def test_weights_in_other_files_are_not_read(changed, tmp_path):
    (tmp_path / "secret").write_bytes(b"\x00" * 4096)

    def point_outside(model):
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="secret")

    assert "other files" in refused(changed(point_outside))


def test_external_weights_inside_of_a_branch_are_found(changed):
    def point_outside(model):
        scans = [node for node in model.graph.node if node.op_type == "Scan"]
        body = next(a.g for a in scans[0].attribute if a.name == "body")
        constant = next(node for node in body.node if node.op_type == "Constant")
        constant.attribute[0].t.data_location = onnx.TensorProto.EXTERNAL

    assert "other files" in refused(changed(point_outside))


def test_operators_that_are_not_written_here(changed):
    def add_loop(model):
        model.graph.node.add(op_type="Loop", input=["left"], output=["z"])

    assert "'Loop'" in refused(changed(add_loop))

    def other_domain(model):
        model.graph.node[0].domain = "com.microsoft"

    refused(changed(other_domain))


def test_damaged_graphs_and_metadata(changed):
    def misspell(model):
        model.graph.node[5].input[0] = "nowhere"

    refused(changed(misspell))

    def shorten(model):
        model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]

    refused(changed(shorten))

    def settings(model):
        entry = next(e for e in model.metadata_props if e.key == "config")
        entry.value = '{"hidden": -1}'

    assert "hidden" in refused(changed(settings))

    def iterations(model):
        entry = next(e for e in model.metadata_props if e.key == "iterations")
        entry.value = "many"

    refused(changed(iterations))


def test_wrong_shapes_are_the_engines_to_tell(changed):
    def reshape(model):
        weight = next(t for t in model.graph.initializer if len(t.dims) == 4 and t.dims[0] != t.dims[1])
        weight.dims[0], weight.dims[1] = weight.dims[1], weight.dims[0]

    path = changed(reshape)
    told = refused(path, by=lambda file: linstereo.load(file).predict(*bundled_pair(), scale=0.25))
    assert "ONNX Runtime cannot run" in told


def test_every_operator_of_the_list_is_one_of_onnx():
    assert OPERATORS
    assert {name: onnx.defs.has(name) for name in OPERATORS} == dict.fromkeys(OPERATORS, True)
    assert all(onnx.defs.get_schema(name, 18).since_version <= 18 for name in OPERATORS)


@pytest.mark.parametrize(("backend", "package"), [("onnx", "onnxruntime"), ("openvino", "openvino")])
def test_a_missing_backend_is_named_with_its_remedy(backend, package, tiny_file, monkeypatch):
    def without(module, *, extra, purpose):
        if module == package:
            raise MissingExtraError(f"{purpose} needs the package {module}; run: pip install 'linstereo[{extra}]'")
        return onnx

    monkeypatch.setattr(onnx_file, "require", without)
    monkeypatch.setattr(graph_engine, "require", without)
    with pytest.raises(MissingExtraError, match=rf"the backend {backend} needs the package {package}"):
        linstereo.load(tiny_file, backend=backend)
