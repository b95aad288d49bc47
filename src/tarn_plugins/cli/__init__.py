"""Commands that plugins add to `tarn`."""
