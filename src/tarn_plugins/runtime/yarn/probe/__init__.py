"""`tarn doctor --probe` on YARN: a short container for each node label says what is true there."""
