"""For plugin authors and for our own tests: fakes, and one contract suite for each Protocol.

Import from the modules: `tarn.testing.fakes`, `tarn.testing.contracts` (needs pytest),
`tarn.testing.strategies` (needs hypothesis), `tarn.testing.context`, `tarn.testing.wait`.
"""
