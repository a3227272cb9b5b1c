#!/usr/bin/env bash
# Installs the real parts that some tests drive (PostgreSQL's server, Chromium), where this
# machine lets us: root on a Debian-like system. Elsewhere those tests say why they are skipped.
set -u
wanted=()
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || wanted+=(postgresql)
command -v chromium >/dev/null 2>&1 || wanted+=(chromium)
command -v chromedriver >/dev/null 2>&1 || wanted+=(chromium-driver)
[ "${#wanted[@]}" -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "not installed here: ${wanted[*]} (the tests that need them will be skipped)"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null ||
  echo "could not install: ${wanted[*]} (the tests that need them will be skipped)"
exit 0
