"""Kvarn: a desktop serving console for the owner of one workstation."""

__version__ = "0.1.0"
