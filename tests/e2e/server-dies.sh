#!/bin/bash
# shellcheck disable=SC2034 # for peer-dies.bash
# The server's session is killed, see peer-dies.bash. TAP.

victim=server
# shellcheck source=peer-dies.bash
. "${top_srcdir:?}/tests/e2e/peer-dies.bash"
