"""A map over HTTP: a JSON interface for robots and a page for people (`displace serve`)."""
