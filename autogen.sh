#!/bin/sh
# Generate configure and the Makefile.in from a checkout. A release tarball
# has them already and does not need this.
set -e
cd "$(dirname "$0")"

for tool in autoreconf automake aclocal pkg-config; do
	command -v "$tool" >/dev/null 2>&1 || {
		echo "autogen.sh: $tool is missing; scripts/deps build installs what a build needs" >&2
		exit 1
	}
done
mkdir -p build-aux
exec autoreconf --install --force --warnings=all "$@"
