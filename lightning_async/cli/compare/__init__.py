"""`lightning-async compare`: several methods on one recipe, measured in logical time.

Nothing in this package imports torch or Lightning except `execution` and `history`, which only the processes that
train load: a mistake in a comparison file is reported before anything slow happens.
"""
