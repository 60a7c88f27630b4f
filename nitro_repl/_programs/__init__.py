"""Compiled programs: what they are made of, their keys, and the cache of them."""
