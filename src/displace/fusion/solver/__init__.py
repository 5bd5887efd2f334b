"""The generalised eigenvalue problem: scatter statistics, its solution, and how its settings are chosen."""
