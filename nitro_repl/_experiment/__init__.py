"""Experiments: fields and their markers, hooks and their routing, metric values."""
