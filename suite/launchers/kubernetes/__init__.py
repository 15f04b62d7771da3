"""Runs on Kubernetes: the manifests, as plain data. Nothing here talks to a cluster."""
