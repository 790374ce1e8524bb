"""The light agents of the answering pipeline (KIMAs 3.2 to 3.5), one module each."""
