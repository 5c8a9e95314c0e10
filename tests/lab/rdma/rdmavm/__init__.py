"""A virtual machine with RDMA devices: what is in it, how it is run, and how a run ends."""
