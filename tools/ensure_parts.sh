#!/usr/bin/env bash
# Installs the real parts that some tests drive (Chromium, Firefox, TypeScript, PostgreSQL's server, Java for
# Spark), where this machine lets us: root on a Debian-like system. Elsewhere the tests say why they
# are skipped.
set -u
here="$(dirname "$0")"
sh "$here/ensure_chromium.sh"
sh "$here/ensure_firefox.sh"
sh "$here/ensure_typescript.sh" "${1:-.venv}"
wanted=()
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || wanted+=(postgresql)
java_major() {
  java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}
major="$(command -v java >/dev/null 2>&1 && java_major)"
[ "${major:-0}" -ge 17 ] || wanted+=(default-jre-headless)
[ "${#wanted[@]}" -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "not installed here: ${wanted[*]} (the tests that need them will be skipped)"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null ||
  echo "could not install: ${wanted[*]} (the tests that need them will be skipped)"
exit 0
