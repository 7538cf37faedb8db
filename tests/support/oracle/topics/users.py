"""The form of users, copied by hand from its declaration and its rules."""

from oracle.forms import ALWAYS, COUNTRY, Field, Form, choice, envelope, one_of

TIERS = ("bronze", "silver", "gold", "platinum")

FORM = Form(
    key="user_id",
    late=False,
    fields={
        **envelope("user_changed", ages=False),
        "user_id": Field(needed=ALWAYS),
        "op": choice("op", "c", "u", "d", needed=ALWAYS),
        "before": Field("object", one_of("op", "u", "d")),
        "after": Field("object", one_of("op", "c", "u")),
        "tier": choice("tier", *TIERS, path="after.tier"),
        "country": Field(holds=COUNTRY, path="after.country"),
        "email": Field(path="after.email"),
        "tier_before": choice("tier_before", *TIERS, path="before.tier"),
        "country_before": Field(path="before.country"),
        "email_before": Field(path="before.email"),
    },
)
