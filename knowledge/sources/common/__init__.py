"""What several kinds of sources share: path filters, links and document checks."""
