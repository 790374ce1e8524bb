"""Language models: client, streaming, failover, structured output, prompts."""
