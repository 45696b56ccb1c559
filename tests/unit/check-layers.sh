#!/bin/sh
# scripts/check-layers must fire for each of its rules.
exec "${top_srcdir:?}/scripts/check-layers" --self-test
