"""The page at ``/dashboard``: one answer with its styles and scripts in it, the same for everybody.

It names nobody and nothing of the cluster, so it asks nobody: what it shows it reads from the API
as whoever looks at it.
"""

from tarn.http.dashboard.assembly import read_page
from tarn.http.dashboard.route import Dashboard

__all__ = ["Dashboard", "read_page"]
