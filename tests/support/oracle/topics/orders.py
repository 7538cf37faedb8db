"""The form of orders, copied by hand from its declaration and its rules."""

from oracle.forms import ALWAYS, Field, Form, choice, envelope, one_of, whole

PLACED = one_of("type", "order_placed")

FORM = Form(
    key="order_id",
    fields={
        **envelope("order_placed", "order_status_changed"),
        "order_id": Field(needed=ALWAYS),
        "user_id": Field(needed=PLACED),
        "product_id": Field(needed=PLACED),
        "merchant_id": Field(needed=PLACED),
        "quantity": whole("quantity > 0", PLACED),
        "amount_cents": whole("amount_cents between 0 and 100_000_000_000", PLACED),
        "status": choice(
            "status",
            *("placed", "paid", "packed", "shipped", "delivered", "cancelled"),
            needed=one_of("type", "order_status_changed"),
        ),
    },
)
