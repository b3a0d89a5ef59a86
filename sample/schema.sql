-- The table of the effects. It has no key on purpose: an effect that happened twice would show.
CREATE TABLE IF NOT EXISTS invoices (
    order_id     BIGINT NOT NULL,
    customer     TEXT   NOT NULL,
    country      TEXT,
    amount_cents BIGINT NOT NULL
);

-- What each country owes so far: a counter, which a second run of the same message would spoil.
CREATE TABLE IF NOT EXISTS totals (
    country      TEXT   NOT NULL PRIMARY KEY,
    invoices     BIGINT NOT NULL,
    amount_cents BIGINT NOT NULL
);
