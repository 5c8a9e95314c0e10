"""A cluster of hosts on one machine, made of network namespaces: the package behind tests/lab/lab."""
