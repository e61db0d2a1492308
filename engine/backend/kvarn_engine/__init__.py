"""Builds the patched llama-cpp-python. `pep517` is the build backend; the rest also serves tools/."""
