"""The command line: `lightning-async fit | validate | test | compare`."""
