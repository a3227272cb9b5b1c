#!/bin/sh
# A Chromium and its driver for the browser tests: found, or installed where apt and root allow.
set -eu
if command -v chromedriver >/dev/null 2>&1 && { command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1; }; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null && exit 0
fi
echo "Chromium with chromedriver is not installed and cannot be installed here: browser tests will be skipped."
