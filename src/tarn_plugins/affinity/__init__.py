"""The affinities that come with TARN."""
