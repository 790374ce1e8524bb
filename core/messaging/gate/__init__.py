"""The gate: should the bot answer a message at all?"""
