"""Other programs ask: an endpoint that speaks as OpenAI's does, and one that gives the JSON of `kimas ask`."""
