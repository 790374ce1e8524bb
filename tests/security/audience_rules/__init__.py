"""What people and operators do, for the state machine over audiences (tests/security/test_audience_property.py)."""
