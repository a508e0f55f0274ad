"""Assay turns a Triton kernel file into evidence that anyone can regenerate."""
