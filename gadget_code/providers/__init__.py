"""Requests to model providers: the addresses that are allowed, the list of models."""
