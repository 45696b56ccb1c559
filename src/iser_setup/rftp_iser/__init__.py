# SPDX-License-Identifier: Apache-2.0
"""rftp-iser: storage of a host, bound to its NUMA nodes, served by iSER, and used."""
