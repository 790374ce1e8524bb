"""Web sites: a polite, incremental crawl."""
