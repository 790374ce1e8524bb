"""From a question to a cited answer: the pipeline, its agents, strategies and rewrites."""
