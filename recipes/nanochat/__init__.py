"""The NanoChat experiment: a small decoder trained with Muon-type methods."""
