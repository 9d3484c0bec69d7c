"""What the papers predict: times, iterations and parameters from a few constants, with numpy alone."""

from lightning_async.theory.clipped_asgd import clipped_asgd_iterations
from lightning_async.theory.loscar import loscar_time
from lightning_async.theory.parameters import (
    LMOParameters,
    rennala_batch,
    ringmaster_lmo_parameters,
    ringmaster_threshold,
)
from lightning_async.theory.update_time import (
    PowerProfile,
    harmonic_times,
    rennala_time,
    ringmaster_time,
    update_time,
    update_time_universal,
)

__all__ = [
    "LMOParameters",
    "PowerProfile",
    "clipped_asgd_iterations",
    "harmonic_times",
    "loscar_time",
    "rennala_batch",
    "rennala_time",
    "ringmaster_lmo_parameters",
    "ringmaster_threshold",
    "ringmaster_time",
    "update_time",
    "update_time_universal",
]
