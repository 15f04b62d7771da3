"""Runs on Cloud TPU VMs: the gcloud commands, as lists of words. Nothing here is run."""
