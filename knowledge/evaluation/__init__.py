"""Measuring retrieval and routing on labelled data, and fitting their weights to it."""
