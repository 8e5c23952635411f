#!/bin/sh
# unpack.sh RESULTS CASES: joins RESULTS/runs.tar.* and packs every run into CASES/<name>; runs that fail a check are named.
work=$(mktemp -d)
cat "$1"/runs.tar.* | tar xf - -C "$work" || exit 1
for run in "$work"/*/; do ${PYTHON:-python3} -m lab pack "$run" "$2/$(basename "$run")" && echo "packed $(basename "$run")"; done
rm -rf "$work"
