"""Fits and extraction on several processes or machines, with Dask."""
