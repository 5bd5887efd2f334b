"""Measurements that the documentation quotes: ``python -m benchmarks`` runs all, ``python -m benchmarks NAME`` one."""
