"""Checkpoints of a project's files, in an object store of their own, and the way back to each."""

from gadget_drone.checkpoints.checkpoints import Checkpoints
from gadget_drone.checkpoints.limits import CheckpointError, CheckpointLimits
from gadget_drone.checkpoints.restore import Restored
from gadget_drone.checkpoints.snapshot import Skipped

__all__ = ["CheckpointError", "CheckpointLimits", "Checkpoints", "Restored", "Skipped"]
