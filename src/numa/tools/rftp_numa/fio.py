# SPDX-License-Identifier: Apache-2.0
"""fio(1): its command line and its report. Also for scripts/fio-numa."""
from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass

from rftp_numa.common import Failure, printable


def words(filename: str, op: str, block: int, jobs: int, seconds: int, slice: int, *,
          name: str = "numa", engine: str = "psync", direct: bool = True) -> list[str]:
    """Reads or writes in order for so long, each job in a slice of its own."""
    return ["fio", "--name=" + name, "--filename=" + filename, "--rw=" + op, "--bs=%d" % block,
            "--numjobs=%d" % jobs, "--size=%d" % slice, "--offset_increment=%d" % slice,
            "--ioengine=" + engine, "--direct=%d" % direct, "--time_based", "--runtime=%d" % seconds,
            "--group_reporting", "--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=99",
            "--output-format=json"]


@dataclass(frozen=True)
class Result:
    bytes_per_second: float
    mean_ns: float  # from a request's issue to its completion
    p99_ns: float


def parse(text: str, op: str) -> Result:
    """The report of a run; lines before it are passed over. Failure with fio's own error, or what is
    wrong with the report."""
    at = 0 if text.startswith("{") else text.find("\n{") + 1
    if not text.startswith("{", at):
        raise Failure("fio's output has no JSON in it")
    try:
        root, _ = json.JSONDecoder().raw_decode(text[at:])
    except ValueError as why:
        raise Failure("fio's output, line %d: %s" % (getattr(why, "lineno", 1), printable(str(why)))) from None
    try:
        job = root["jobs"][0]
        error = job["error"]
    except (LookupError, TypeError):
        error = None
    if type(error) is not int:
        raise Failure("fio's output has no job with its \"error\"")
    if error:
        raise Failure("fio's job failed: " + os.strerror(error))
    try:
        way = job[op]
        values = way["bw_bytes"], way["lat_ns"]["mean"], way["lat_ns"]["percentile"]["99.000000"]
        if all(type(v) in (int, float) and v > 0 and math.isfinite(v) for v in values):
            return Result(*map(float, values))
    except (LookupError, TypeError):
        pass
    raise Failure("fio's output has no bw_bytes, or no lat_ns with its mean and 99th percentile, above 0 in "
                  "\"%s\"" % op)
