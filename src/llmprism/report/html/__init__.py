"""One self-contained HTML page: no network, no external file, no inline handler, every outside name as text.

`data` turns a report into the page's data, `page_events` packs the per-GPU events, `grid` lays out the picture of a
job, `page` puts data, style and script into the template. The browser side is in `static/`, one file per view.
"""

from llmprism.report.html.page import render

__all__ = ["render"]
