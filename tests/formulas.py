"""Cells that give `Tiny` another formula; the lines of its body go into the braces."""

from __future__ import annotations

LOSS = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        {}
"""
FORWARD = """
class Tiny(Tiny):
    def forward(self, model, *, x):
        {}
"""
