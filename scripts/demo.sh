#!/usr/bin/env bash
# Runs the sample orders into a fresh database, twice: the second run applies nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

# What rusqlite asks for; PostgreSQL would ask for 1.94.
need_rust 1.89

say "building inbox (the first time this takes a few minutes)"
cargo build --release --package inbox-cli --no-default-features
inbox=${CARGO_TARGET_DIR:-target}/release/inbox

folder=${CARGO_TARGET_DIR:-target}/demo
rm -rf "$folder"
mkdir -p "$folder"
database=sqlite:$folder/shop.db

run() {
    "$inbox" run --from file:sample/orders.jsonl --into "$database" --group billing --id /id \
        --init sample/schema.sql \
        --sql 'INSERT INTO invoices (order_id, customer, amount) VALUES (:order_id, :customer, :amount)' \
        --quiet
}

say "first run: 27 orders, 1 duplicate, 1 conflict, 1 line that is cut off"
run
say "second run of the same command: nothing is left to read"
run
say "third run, after its progress is forgotten: everything is read again, nothing is applied again"
"$inbox" checkpoint reset --from file:sample/orders.jsonl --into "$database" --group billing
run

say "inbox dead list"
"$inbox" dead list --into "$database"
say "inbox conflicts list"
"$inbox" conflicts list --into "$database"
say "inbox stats"
"$inbox" stats --into "$database"
printf '\nThe database is %s\n' "${database#sqlite:}"
