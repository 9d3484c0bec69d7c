"""`lightning-async compare`: several methods on one recipe, measured in logical time."""
