# SPDX-License-Identifier: Apache-2.0
"""The RDMA device that has an address, and the index of its GID for RoCE v2: for perftest.
Run as "python3 - ADDRESS" with this as input, so that it need not be there on the other host."""
import glob
import ipaddress
import os
import sys

address = ipaddress.ip_address(sys.argv[1])
want = int(address) if address.version == 6 else 0xffff << 32 | int(address)
for path in sorted(glob.glob("/sys/class/infiniband/*/ports/1/gids/*")):
    try:
        with open(path, encoding="ascii") as f:
            gid = int(f.read().replace(":", ""), 16)
        with open(path.replace("/gids/", "/gid_attrs/types/"), encoding="ascii") as f:
            kind = f.read()
    except (OSError, ValueError):
        continue
    if gid == want and "v1" not in kind:
        print(path.split("/")[4], os.path.basename(path))
        sys.exit()
sys.exit("no RDMA device has " + sys.argv[1])
