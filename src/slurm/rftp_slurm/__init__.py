# SPDX-License-Identifier: Apache-2.0
"""rftp-slurm: copies one data set with many hosts of a Slurm cluster. cli reads the command line,
submit plans, submits and watches, task has the jobs, report reads their events; state is a
directory that all of them share."""
