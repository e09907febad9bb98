"""Which file a program gets, from the map it asks for and the kinds it accepts."""

from linstereo.app.failures import RefusedError

PLY = "model/ply"
EVENTS = "text/event-stream"
KINDS = {
    "image/png": "png",
    "application/x-npy": "npy",
    "application/x-pfm": "pfm",
    PLY: "ply",
    "application/ply": "ply",
    "application/x-ply": "ply",
}
"""Media types that are known, and the kind of file that each stands for."""
UNITS = {
    "disparity.png": "px/256",
    "disparity.npy": "px",
    "disparity.pfm": "px",
    "depth.png": "mm",
    "depth.npy": "m",
    "depth.pfm": "m",
    "confidence.png": "1/65535",
    "confidence.npy": "1",
    "confidence.pfm": "1",
    "occlusion.png": "0 or 255",
    "occlusion.npy": "0 or 1",
    "cloud.ply": "m",
}
"""What the numbers in each file mean."""


def wanted_file(output: str | None, accept: str) -> tuple[str, str]:
    """The file to answer with and its media type.

    Args:
        output: the map that is asked for; None stands for the disparity, or the cloud if only PLY is accepted.
        accept: the Accept header.
    """
    for kind in accepted_kinds(accept):
        suffix = KINDS.get(kind)
        if kind in ("*/*", "application/*", "model/*", "image/*"):
            name = "cloud.ply" if output == "cloud" else f"{output or 'disparity'}.png"
            whole = kind.partition("/")[0]
            if name in UNITS and whole in ("*", "model" if name == "cloud.ply" else "image"):
                return name, PLY if name == "cloud.ply" else "image/png"
            if whole == "application" and output != "cloud":
                return f"{output or 'disparity'}.npy", "application/x-npy"
        elif suffix is not None:
            name = f"{output or ('cloud' if suffix == 'ply' else 'disparity')}.{suffix}"
            if name in UNITS:
                return name, kind
    raise RefusedError(
        406,
        f"There is no {output or 'disparity'} of the kinds that are accepted; ask for image/png, application/x-npy or "
        f"application/x-pfm, or with output=cloud for {PLY}",
    )


def accepted_kinds(accept: str) -> list[str]:
    """The media types of an Accept header, best first; an empty header accepts all."""
    weighted: list[tuple[float, int, str]] = []
    for part in accept.split(",")[:32]:
        kind, *parameters = (word.strip().lower() for word in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        if kind and quality > 0:
            weighted.append((-quality, len(weighted), kind))
    return [kind for _, _, kind in sorted(weighted)] if accept.strip() else ["*/*"]
