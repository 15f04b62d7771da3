"""Frames to SVG: one figure a function, each a pure function of its data."""
