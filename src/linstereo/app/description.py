"""What the OpenAPI description says about the routes, with examples."""

from typing import Any

from linstereo.app.job_request import OUTPUTS
from linstereo.app.negotiation import EVENTS, KINDS, PLY

_ERROR_SCHEMA = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


def _error(meaning: str, sentence: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ERROR_SCHEMA, "example": {"error": sentence}}}
    return {"description": meaning, "content": content}


def _binary(description: str) -> dict[str, Any]:
    return {"type": "string", "format": "binary", "description": description}


def _text(description: str, *, example: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more} | ({} if example is None else {"example": example})


_NUMBER = {"type": "number"}
_FORM = {
    "type": "object",
    "properties": {
        "left": _binary("left image: PNG, JPEG, WebP, TIFF, BMP, PPM or PGM, 8 or 16 bits"),
        "right": _binary("right image of the same size"),
        "pair": _binary("instead of both: one image with the two side by side, left first"),
        "calibration": _text(
            "JSON with focal (px), baseline (m) and, if known, cx, cy, doffs (px), aspect; or a file: calib.json, "
            "calib.txt of Middlebury or KITTI, YAML or XML of OpenCV, Kalibr's camchain.yaml, ROS's left.yaml and "
            "right.yaml as two parts",
            example='{"focal": 560.0, "baseline": 0.12, "cx": 319.5, "cy": 239.5}',
        ),
        "focal": _NUMBER | {"description": "instead of a calibration: focal length, px", "example": 560.0},
        "baseline": _NUMBER | {"description": "with focal: distance of the cameras, m", "example": 0.12},
        "unit": _text("of the lengths in a file of OpenCV", enum=["m", "cm", "mm"]),
        "fisheye": {"type": "boolean", "description": "a file of OpenCV has the distortion of cv2.fisheye"},
        "rectified": {"type": "boolean", "description": "the images were rectified as the file describes"},
        "scale_calibration": {"type": "boolean", "description": "scale a calibration of another image size"},
        "iterations": {"type": "integer", "minimum": 1, "description": "T; by default the model's own number"},
        "scale": _NUMBER | {"description": "run on images resized by this factor, at most 4"},
        "output": _text("which map", enum=list(OUTPUTS), default="disparity"),
        "confidence": {"type": "boolean", "description": "compute the confidence too (page)"},
        "occlusion": {"type": "boolean", "description": "find what the right camera cannot see (page)"},
        "sgbm": {"type": "boolean", "description": "compute OpenCV's SGBM too (page)"},
        "min_confidence": _NUMBER | {"description": "leave points out of a cloud whose depth is less certain, 0 to 1"},
        "max_depth": _NUMBER | {"description": "leave farther points out of a cloud, m"},
    },
    "required": ["left", "right"],
}

PREDICT: dict[str, Any] = {
    "summary": "Disparity, depth, confidence or points of a stereo pair",
    "description": (
        "Answers with one file, whose kind the Accept header chooses: `image/png` (16 bits: disparity times 256, depth "
        f"in millimetres, confidence times 65535), `application/x-npy`, `application/x-pfm`, or `{PLY}` for the cloud. "
        f"With `Accept: {EVENTS}` it answers with a stream of JSON events instead: the place in the queue, warnings, "
        "each iteration with its disparity, and at last the key and the list of the result's files. Closing the "
        "connection ends the work."
    ),
    "response_model": None,
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": {"schema": _FORM}},
        },
        "parameters": [
            {
                "name": "output",
                "in": "query",
                "required": False,
                "description": "the same as the field of that name, which it overrules",
                "schema": {"type": "string", "enum": list(OUTPUTS)},
            }
        ],
    },
    "responses": {
        200: {
            "description": "the file; X-Linstereo-Unit says what its numbers mean, X-Linstereo-Facts holds size, "
            "iterations, warnings and times as JSON",
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in KINDS}
            | {EVENTS: {"example": 'data: {"event":"iteration","iteration":1,"iterations":4,"width":384}\n\n'}},
        },
        400: _error("no valid form", "The request is no valid multipart form; send multipart/form-data"),
        401: _error("no token", "This server needs a token; send it as Authorization: Bearer TOKEN"),
        406: _error("no such kind", "There is no depth of the kinds that are accepted; ask for image/png"),
        408: _error("too slow", "The request came too slowly; send it again"),
        413: _error("too large", "The left image is 10000 x 10000 px, which is 100.0 megapixels; scale it down"),
        415: _error("not a form", "The request is no form with files; send multipart/form-data"),
        422: _error("bad images or values", "The left image is 640 x 480 px but the right image is 320 x 240 px"),
        503: _error("the queue is full; Retry-After says when to try again", "The server is busy; try again later"),
        504: _error("took too long", "The pair took longer than 300 s, the limit of this server"),
    },
}
HEALTH: dict[str, Any] = {
    "summary": "Whether the server is there, its model, its queue and its limits",
    "response_model": None,
    "responses": {
        200: {
            "content": {
                "application/json": {
                    "example": {
                        "status": "ok",
                        "version": "0.1.0",
                        "model": {"name": "compact (bundled)", "trained": True, "device": "cpu", "iterations": 4},
                        "queue": {"running": 0, "waiting": 0, "length": 8},
                    }
                }
            }
        }
    },
}
RESULT: dict[str, Any] = {
    "summary": "A file of a result that was computed with events",
    "description": "The random key is all that is needed to read a result, for as long as it is kept.",
    "response_model": None,
    "responses": {404: _error("not kept any more", "This result is not kept any more; compute it again")},
}
