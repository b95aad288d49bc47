"""TARN's own plugins, offered through the entry points that anybody may use."""
