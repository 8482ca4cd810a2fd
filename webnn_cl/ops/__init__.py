"""The 95 operators, one file per family: records (limits, lowering) beside the builder methods that use them."""
