#!/bin/sh
# Programs that the tests drive: tmux, man, Chromium, PostgreSQL and pgbouncer. Installed where that is possible.
set -eu
has() { command -v "$1" >/dev/null 2>&1; }

missing=""
has tmux || missing="$missing tmux"
has man || missing="$missing man-db"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || has postgres || missing="$missing postgresql"
has pgbouncer || test -x /usr/sbin/pgbouncer || missing="$missing pgbouncer"
has chromium || has chromium-browser || has google-chrome \
    || test -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" || missing="$missing chromium"
[ -n "$missing" ] || exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if has apt-get && { [ -z "$as_root" ] || sudo -n true 2>/dev/null; }; then
    echo "Installing$missing for the tests"
    $as_root apt-get update -qq >/dev/null 2>&1 || true
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
elif has brew; then
    echo "Installing$missing for the tests"
    # shellcheck disable=SC2086
    brew install --quiet $missing
else
    echo "The tests need$missing: please install (for example: sudo apt-get install$missing)" >&2
    exit 1
fi
