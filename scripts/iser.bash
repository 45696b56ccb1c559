# shellcheck shell=bash disable=SC2034 # iser: the sourcing script uses it
# SPDX-License-Identifier: Apache-2.0
# Shared by iser-target.sh and iser-initiator.sh: messages, and the path of rftp-iser.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1

say() { echo "scripts/${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }
wrong() { say "$*; --help tells more"; exit 2; }
# The script's own head.
usage() { sed -n '3,/^$/s/^# \{0,1\}//p' "$0"; }

# Sets iser: beside the scripts, in a tree that was built where its source is, or installed.
find_iser() {
	iser=$(command -v "$here/rftp-iser" || command -v "$here/../rftp-iser" || command -v rftp-iser) ||
		die "there is no rftp-iser: build it, and make install"
}
