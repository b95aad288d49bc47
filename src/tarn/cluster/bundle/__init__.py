"""The support bundle: everything that helps somebody else to understand a cluster, and no secret.

It is made where a cluster answers, where it hangs, and where it is over: each part is gathered by
itself, and what cannot be had is named in the manifest with the reason.
"""

from tarn.cluster.bundle.making import FOLDERS, Bundle, BundleOptions, BundleSubject, make
from tarn.cluster.bundle.part import Part

__all__ = ["FOLDERS", "Bundle", "BundleOptions", "BundleSubject", "Part", "make"]
