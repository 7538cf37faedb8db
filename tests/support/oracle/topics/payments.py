"""The form of payments, copied by hand from its declaration and its rules."""

from oracle.forms import ALWAYS, COUNTRY, Field, Form, choice, envelope, one_of, whole

FORM = Form(
    key="order_id",
    fields={
        **envelope("payment_received", "payment_failed"),
        "order_id": Field(needed=ALWAYS),
        "payment_id": Field(needed=ALWAYS),
        "user_id": Field(),
        "merchant_id": Field(needed=ALWAYS),
        "amount_cents": whole("amount_cents between 0 and 100_000_000_000", ALWAYS),
        "method": choice("method", "card", "transfer", "wallet"),
        "country": Field(needed=ALWAYS, holds=COUNTRY),
        "reason": Field(needed=one_of("type", "payment_failed")),
    },
)
