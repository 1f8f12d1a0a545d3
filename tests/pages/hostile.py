"""Names that would run as scripts, or break out of where they stand, on a page that does not escape them."""

from __future__ import annotations

NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "</title></style><svg onload=alert(1)>",
    "javascript:alert(1)",
    "$x^{2$ {{ 7*7 }} {% raw %} '\"`&lt;",
)
