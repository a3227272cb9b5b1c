#!/bin/sh
# TypeScript as a checker of the page's JSDoc types, in a folder of the virtual environment.
set -eu
venv="${1:-.venv}"
[ -x "$venv/typescript/node_modules/.bin/tsc" ] && exit 0
if command -v npm >/dev/null 2>&1; then
    npm install --silent --no-audit --no-fund --prefix "$venv/typescript" typescript@5.9.3 >/dev/null 2>&1 && exit 0
fi
echo "TypeScript is not installed and cannot be installed here: the types of the page's scripts are not checked."
