#!/bin/sh
# Programs that the tests drive: tmux, Chromium, PostgreSQL and pgbouncer. Installed where that is possible.
set -eu
missing=""
command -v tmux >/dev/null 2>&1 || missing="$missing tmux"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null 2>&1 \
    || missing="$missing postgresql"
command -v pgbouncer >/dev/null 2>&1 || test -x /usr/sbin/pgbouncer || missing="$missing pgbouncer"
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 \
    || command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium"
[ -n "$missing" ] || exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing$missing for the tests"
    apt-get update -qq >/dev/null 2>&1 || true
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
    exit 0
fi
echo "The tests need$missing: please install (for example: apt-get install$missing)" >&2
exit 1
