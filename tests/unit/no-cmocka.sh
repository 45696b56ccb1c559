#!/bin/sh
echo "1..0 # SKIP the unit tests: cmocka was not found by configure"
