"""What the studies in the plain loop have in common: results that are kept, processes, and their command lines."""

from recipes.studies.checks import check_numbers, check_seeds
from recipes.studies.command import Command, checked, folder, jobs, read_command
from recipes.studies.pool import run_missing
from recipes.studies.results import Results, Run

__all__ = [
    "Command",
    "Results",
    "Run",
    "check_numbers",
    "check_seeds",
    "checked",
    "folder",
    "jobs",
    "read_command",
    "run_missing",
]
