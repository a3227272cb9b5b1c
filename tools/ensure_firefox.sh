#!/bin/sh
# A Firefox for the browser tests: found, or installed where apt and root allow. It needs no driver.
set -eu
if command -v firefox-esr >/dev/null 2>&1 || command -v firefox >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends firefox-esr >/dev/null && exit 0
fi
echo "Firefox is not installed and cannot be installed here: its browser tests will be skipped."
