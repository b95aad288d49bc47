"""Fakes and contract suites for the tests of plugin authors, and for TARN's own.

Import from the modules: `tarn.testing.fakes`, `tarn.testing.contracts` (needs pytest),
`tarn.testing.strategies` (needs hypothesis), `tarn.testing.context`, `tarn.testing.wait`.
"""
