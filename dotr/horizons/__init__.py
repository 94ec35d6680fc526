"""Windows closed under rules, kept from point to point at a cost that does not depend on their size."""
