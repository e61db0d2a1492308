"""Processes, sockets, threads and disk; no Qt."""
