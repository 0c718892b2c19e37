#!/bin/sh
# Build the wheel twice and compare: the same commit must give the same file, byte for byte.
set -eu
cd "$(dirname "$0")/.."
# The time of the last commit, not of the build; outside a checkout the earliest that a zip can hold.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for turn in first second; do
    .venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir "$scratch/$turn" .
done
name=$(basename "$scratch"/first/*.whl)
if ! cmp "$scratch/first/$name" "$scratch/second/$name"; then
    echo "$name: two builds of one commit differ; look for a time or an order in it" >&2
    exit 1
fi
mkdir -p dist
cp "$scratch/first/$name" dist/
(cd dist && sha256sum "$name" 2>/dev/null || shasum -a 256 "$name")
