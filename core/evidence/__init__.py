"""From passages to the evidence in a prompt: ranking, selection, rendering."""
