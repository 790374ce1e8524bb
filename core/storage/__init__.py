"""The database of a deployment: one repository per aggregate. All SQL is here."""
