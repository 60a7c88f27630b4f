"""The notebook layer: `%nitro`, its completion and its progress line."""
