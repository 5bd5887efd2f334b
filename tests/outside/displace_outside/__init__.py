"""A package that adds fusions to displace, as somebody else would write it; see docs/add_a_fusion.md."""
