"""Widgets and charts; no decisions."""
