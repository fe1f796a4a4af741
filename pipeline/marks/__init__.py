"""Masks and printed tables of other people, scored and checked.

Torch, Ray and MLflow do not come in.
"""
