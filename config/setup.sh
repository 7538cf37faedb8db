#!/usr/bin/env bash
# Set up this checkout, and remove it; called by the Makefile. Each step is skipped if it is already done.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
stamp=.venv/lakehouse-stamp

fail() { printf '%s\n' "$@" >&2; exit 2; }

# Print the first usable Python. Every one on the PATH is tried: a pyenv shim may exist and still fail.
find_python() {
  local names=(python3.13 python3.12 python3.11 python3) name candidate bare=''
  [ -z "${PYTHON:-}" ] || names=("$PYTHON")
  for name in "${names[@]}"; do
    while read -r candidate; do
      "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || continue
      if command -v uv >/dev/null || "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
        echo "$candidate"
        return
      fi
      bare=$candidate
    done < <(type -aP "$name")
  done
  [ -z "$bare" ] || fail "$bare lacks the venv module." \
    "Debian, Ubuntu: sudo apt-get install python3-venv     Or choose another: make setup PYTHON=/path/to/python"
  fail "No Python 3.11, 3.12 or 3.13 was found${PYTHON:+ at PYTHON=$PYTHON}." \
    "Debian, Ubuntu: sudo apt-get install python3 python3-venv     Fedora: sudo dnf install python3.13" \
    "macOS: brew install python@3.13     Or choose an installed one: make setup PYTHON=/path/to/python"
}

# Print what .venv depends on: first the checkout's path, which its scripts and the editable install contain.
wanted() { pwd -P; cat requirements.lock pyproject.toml | cksum; }

packages() {
  if [ -x $python ] && [ "$(cat $stamp 2>/dev/null)" = "$(wanted)" ]; then return; fi
  local base uv
  if ! [ -x $python ] || [ "$(head -n 1 $stamp 2>/dev/null)" != "$(pwd -P)" ]; then
    base=$(find_python)
    rm -rf .venv
    if command -v uv >/dev/null; then uv venv --quiet --python "$base" .venv; else "$base" -m venv .venv; fi
  fi
  pwd -P > $stamp # without the checksum, so that the next start continues an interrupted installation
  echo "Installing Python packages (about a minute, once) ..."
  if ! uv=$(command -v uv); then
    uv=.venv/bin/uv
    [ -x $uv ] || awk '/^uv==/,!/\\$/' requirements.lock |
      $python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes -r /dev/stdin
  fi
  # Compiled once, here: importing Great Expectations from source takes 10 to 30 s of CPU, and 4 s compiled.
  "$uv" pip install --quiet --compile-bytecode --python $python --require-hashes -r requirements.lock
  "$uv" pip install --quiet --python $python --no-deps --no-build-isolation --editable .
  wanted > $stamp
}

# Run config.java with any Python: it needs no package.
find_java() {
  local runner=$python
  [ -x $runner ] || runner=$(find_python) || exit
  "$runner" -m config.java "$@"
}

everything() {
  local java action=''
  [ "${YES:-}" != 1 ] || action=install
  java=$(find_java $action)
  packages
  $python -m config.jars
  $python -m operations.cds_archive
  echo "Ready: $($python --version), $java"
}

# Print the number of test processes: one per core, but at most one per 6 GB of memory.
workers() {
  local cores pages size room
  if cores=$(getconf _NPROCESSORS_ONLN) && pages=$(getconf _PHYS_PAGES) && size=$(getconf PAGE_SIZE); then
    room=$((pages * size / 6000000000))
    echo $((room < 1 ? 1 : room < cores ? room : cores))
  else
    echo 1 # macOS has no _PHYS_PAGES
  fi 2>/dev/null
}

home() {
  $python -c 'from config.settings import load_settings; print(load_settings().home)' 2>/dev/null ||
    echo "${LAKEHOUSE_HOME:-.lakehouse}"
}

down() {
  if [ -d "$(home)" ] && [ -x $python ]; then $python -m lakehouse down; else echo "Nothing is running."; fi
}

# Check whether folder $1 is, or contains, folder $2.
contains() {
  local outer=${1%/}
  case "$2/" in "$outer"/*) return 0 ;; *) return 1 ;; esac
}

clean() {
  local folder
  if [ -d "$(home)" ]; then
    folder=$(cd "$(home)" && pwd -P)
    if contains "$folder" "$(pwd -P)" || contains "$folder" "$HOME"; then
      fail "The home $folder contains this checkout or your home folder: not removed." "Correct LAKEHOUSE_HOME."
    fi
    if [ -n "$(ls -A "$folder")" ] && ! [ -f "$folder/.lakehouse-home" ]; then
      fail "The home $folder has no file .lakehouse-home: it may contain something else, so it is not removed." \
        "If everything in it may be removed: touch '$folder/.lakehouse-home' && make clean"
    fi
    rm -rf "$folder"
  fi
  rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis target logs
  find . -name .venv -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
}

purge() {
  if [ -x $python ]; then $python -m config.jars --remove || echo "The jars stay in the cache." >&2; fi
  rm -rf .venv
}

case "${1:-}" in
  everything | packages | workers | down | clean | purge) "$1" ;;
  java) find_java install ;;
  *) fail "Usage: config/setup.sh everything | packages | java | workers | down | clean | purge" ;;
esac
