"""Measuring the parts of the line on labelled data, one module per kind of data."""
