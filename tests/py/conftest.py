# SPDX-License-Identifier: Apache-2.0
"""Adds the packages to Python's path."""
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "src" / part) for part in ("python", "iser_setup", "numa/tools", "slurm")]
