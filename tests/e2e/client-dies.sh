#!/bin/bash
# shellcheck disable=SC2034 # for peer-dies.bash
# The client is killed, see peer-dies.bash. TAP.

victim=client
# shellcheck source=peer-dies.bash
. "${top_srcdir:?}/tests/e2e/peer-dies.bash"
