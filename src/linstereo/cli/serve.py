"""`linstereo serve`: a page in the browser where depth can be seen, and an endpoint for programs."""

import argparse
import sys

from linstereo.cli.options import add_model_options, thread_count


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Serve a page on which two images become a depth map and a point cloud that turns, and an endpoint, "
        "/v1/predict, for programs. It listens on this machine alone unless --host says otherwise. Ctrl-C ends it."
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="NAME", help="address to listen on (default: 127.0.0.1, this machine)"
    )
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="port; 0 takes a free one (default: 8000)")
    parser.add_argument(
        "--token",
        metavar="TEXT",
        help="what programs must send as Authorization: Bearer TEXT, 16 characters or more; auto makes one up",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name under which the server may be addressed, such as that of a proxy; may be repeated",
    )
    parser.add_argument(
        "--check", action="store_true", help="end as soon as it could serve: are model, port and packages fine?"
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-upload", type=float, default=64.0, metavar="MB", help="megabytes of a request (default: 64)"
    )
    limits.add_argument(
        "--max-pixels", type=float, default=16.0, metavar="MP", help="megapixels of one image (default: 16)"
    )
    limits.add_argument(
        "--queue", type=int, default=8, metavar="N", help="requests that may wait; further ones get 503 (default: 8)"
    )
    limits.add_argument(
        "--seconds", type=float, default=300.0, metavar="S", help="that one pair may take (default: 300)"
    )
    add_model_options(parser)
    parser.add_argument("--threads", type=thread_count, metavar="N", help="CPU threads (default: PyTorch's choice)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Serve until a signal ends it."""
    import secrets

    from linstereo.app.server import serve
    from linstereo.app.settings import ServerSettings
    from linstereo.cli.options import load_model
    from linstereo.cli.training_session import chosen_threads

    settings = ServerSettings(
        host=options.host,
        port=options.port,
        token=secrets.token_urlsafe(24) if options.token == "auto" else options.token,
        allowed_hosts=tuple(options.allow_host),
        max_upload=options.max_upload,
        max_pixels=options.max_pixels,
        queue=options.queue,
        seconds=options.seconds,
        iterations=options.iters,
        scale=options.scale,
    )

    def tell(address: str) -> None:
        print(f"linstereo is at {address} (Ctrl-C ends it)", flush=True)
        if not settings.is_loopback:
            guard = "who has the token" if settings.token else "that can reach this machine; --token asks for one"
            print(f"NOTE: it listens on {settings.host}, so it serves everybody {guard}", file=sys.stderr, flush=True)

    with chosen_threads(options.threads):
        serve(lambda: load_model(options), settings, on_start=tell, check=options.check)
