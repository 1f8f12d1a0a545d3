"""The form in which a cascade is mapped: which rewritings suit it, which a search tries, and which axes become one."""
