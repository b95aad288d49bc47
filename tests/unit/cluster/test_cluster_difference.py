from tarn.cluster.start.launch import difference, flat


def test_names_every_changed_leaf_with_both_values():
    """Changed, added and removed leaves each get a line, by path."""
    old = {"name": "a", "replicas": {"min": 1, "max": 4}, "discovery": [{"use": "x"}]}
    new = {"name": "a", "replicas": {"min": 2, "max": 4}, "discovery": [], "farm": None}
    assert difference(old, new) == (
        "discovery: (not set) -> []",
        "discovery[0].use: 'x' -> (not set)",
        "farm: (not set) -> None",
        "replicas.min: 1 -> 2",
    )


def test_says_nothing_of_equal_specs():
    """Equal specs have no difference, and zero is not False's twin by accident of order."""
    assert difference({"a": {"b": [1]}}, {"a": {"b": [1]}}) == ()


def test_flattens_lists_and_mappings_down_to_leaves():
    """An empty mapping is a leaf: it says that somebody emptied it."""
    assert dict(flat({"a": [{"b": 1}], "c": {}})) == {"a[0].b": 1, "c": {}}
