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

# install_server PACKAGE WHAT: as install_package, but Debian's package starts no server of the system, which nobody
# needs here: the tests start their own. A policy of the host's about that stays as it is.
install_server() {
    (
        policy=/usr/sbin/policy-rc.d
        if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null && [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
            trap 'rm -f "$policy"' EXIT
            printf '#!/bin/sh\nexit 101\n' >"$policy"
            chmod 755 "$policy"
        fi
        install_package "$1" "$2" "for the tests on a real server"
    )
}

# The servers that the tests start for themselves. Where a variable points a run at a server that exists, only
# what speaks to it is needed.
need_servers() {
    need_postgres
    need_redis
    need_rabbitmq
    need_kafka
}

need_postgres() {
    if [ -n "${INBOX_TEST_POSTGRES_URL:-}" ]; then
        need_command psql postgresql-client "for the tests on the server of INBOX_TEST_POSTGRES_URL"
        return
    fi
    if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null; then
        return
    fi
    # Nor a cluster of the system.
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    install_server postgresql PostgreSQL
}

need_redis() {
    if [ -n "${INBOX_TEST_REDIS_URL:-}" ]; then
        need_command redis-cli redis-tools "for the tests on the server of INBOX_TEST_REDIS_URL"
        return
    fi
    if command -v redis-server >/dev/null && command -v redis-cli >/dev/null; then
        return
    fi
    install_server redis-server Redis
}

need_rabbitmq() {
    if [ -n "${INBOX_TEST_RABBITMQ_URL:-}" ]; then
        return
    fi
    # Debian's folder, which is not on the path, or any other system's way.
    if [ -e /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null; then
        return
    fi
    install_server rabbitmq-server RabbitMQ
}

# Java, and the jars of the broker, which Maven fetches once per user.
need_kafka() {
    if [ -n "${INBOX_TEST_KAFKA:-}" ]; then
        return
    fi
    local java_min=17 version jars
    need_command java default-jre-headless "for the tests on Kafka"
    need_command mvn maven "fetches Kafka for the tests"
    need_command flock util-linux "fetches Kafka for the tests"
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    if [ "${version:-0}" -lt "$java_min" ]; then
        fail "Java ${version:-of unknown version} is too old for Kafka, $java_min or newer is needed: install a newer one, or set INBOX_TEST_KAFKA"
    fi
    jars=$(sh inbox-testkit/kafka/fetch.sh inbox-testkit/kafka/pom.xml) || fail "Maven could not fetch Kafka: see above"
    say "Kafka for the tests is in $jars"
}
