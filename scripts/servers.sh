#!/usr/bin/env bash
# Installs the servers that the tests start for themselves: PostgreSQL, Redis, RabbitMQ, Kafka. Nothing is left running.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

need_servers
say "all servers of the tests are there"
