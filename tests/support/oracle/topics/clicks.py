"""The form of clicks, copied by hand from its declaration and its rules."""

from oracle.forms import ALWAYS, Field, Form, envelope, one_of, whole

SHOWN = one_of("type", "impression", "click")

FORM = Form(
    key="user_id",
    fields={
        **envelope("page_view", "impression", "click", "add_to_cart"),
        "user_id": Field(needed=ALWAYS),
        "product_id": Field(needed=ALWAYS),
        "dwell_ms": whole("dwell_ms between 0 and 86400000", one_of("type", "page_view")),
        "impression_id": Field(needed=SHOWN),
        "quantity": whole("quantity > 0", one_of("type", "add_to_cart")),
        "ip": Field(),
        "agent": Field(),
    },
)
