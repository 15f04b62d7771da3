"""A described network on one machine: a namespace a host, bridges as switches, links shaped by the kernel."""
