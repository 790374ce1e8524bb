"""Everything the deployment keeps in its database: one repository per aggregate. All SQL is here."""
