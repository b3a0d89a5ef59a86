-- The table of the effects. It has no key on purpose: an effect that happened twice would show.
-- The amount is in cents.
CREATE TABLE IF NOT EXISTS invoices (
    order_id BIGINT NOT NULL,
    customer TEXT,
    amount   BIGINT NOT NULL
);
