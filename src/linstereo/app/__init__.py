"""`linstereo serve`: a page where a person sees depth, and an endpoint for programs.

A request goes through `guards` (who may ask), `uploads` (the body, streamed into a private folder), `requests` (what
was sent, checked before an image is decoded), `queue` (one job after the other), `stages` (the work), and comes back
through `results` (files of a result) and `endpoint`. The page in `static/` uses the same endpoint.
"""

from linstereo.extras import require

for _module in ("fastapi", "uvicorn", "python_multipart"):
    require(_module, extra="web", purpose="linstereo serve")
