# Sourced by the other scripts: installs what they need, or says in one line how to get it.
# shellcheck shell=bash

say() {
    printf '\n== %s\n' "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# install_package PACKAGE WHAT WHY: on Debian as root; otherwise says how to get it.
install_package() {
    local package=$1 what=$2 why=$3
    if ! command -v apt-get >/dev/null; then
        fail "$what is missing ($why): install it with your package manager"
    fi
    if [ "$(id -u)" -ne 0 ]; then
        fail "$what is missing ($why): run 'sudo apt-get install $package'"
    fi
    say "installing $package ($why)"
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        -o Dpkg::Options::=--force-confold "$package"
}

# need_command COMMAND PACKAGE WHY
need_command() {
    command -v "$1" >/dev/null || install_package "$2" "$1" "$3"
}

# need_rust VERSION: cargo, and a Rust that is at least so new.
need_rust() {
    local rust_min=$1
    if ! command -v cargo >/dev/null && [ -f "$HOME/.cargo/env" ]; then
        # shellcheck disable=SC1091
        . "$HOME/.cargo/env"
    fi
    command -v cargo >/dev/null || fail "cargo is missing: install Rust with rustup, see https://rustup.rs"
    local version
    version=$(rustc --version | cut -d ' ' -f 2)
    if [ "$(printf '%s\n' "$rust_min" "$version" | sort -V | head -n 1)" != "$rust_min" ]; then
        fail "Rust $version is too old, $rust_min or newer is needed: run 'rustup update stable', see https://rustup.rs"
    fi
    # SQLite is compiled from its source.
    need_command cc build-essential "the C compiler, for SQLite"
}

# need_component NAME COMMAND: the part of the Rust toolchain that has cargo COMMAND.
need_component() {
    if cargo "$2" --version >/dev/null 2>&1; then
        return
    fi
    command -v rustup >/dev/null || fail "cargo $2 is missing: install the $1 of your Rust toolchain"
    say "installing $1"
    rustup component add "$1"
}

# PostgreSQL's programs, for the tests that start servers of their own. A run that is pointed at a server
# needs only psql.
need_postgres() {
    if [ -n "${INBOX_TEST_POSTGRES_URL:-}" ]; then
        need_command psql postgresql-client "for the tests on the server of INBOX_TEST_POSTGRES_URL"
        return
    fi
    if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null; then
        return
    fi
    # Debian's package would start a server of the system, which nobody needs here.
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    install_package postgresql PostgreSQL "for the tests on a real server"
}
