#!/bin/sh
# The terminal tests drive the real program in tmux; install it where that is possible.
set -eu
command -v tmux >/dev/null 2>&1 && exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing tmux for the terminal tests"
    apt-get update -qq >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq tmux >/dev/null
    exit 0
fi
echo "The terminal tests need tmux: please install it (for example: apt-get install tmux)" >&2
exit 1
