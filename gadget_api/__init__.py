"""What can be said between the parts of Gadget Code: ids, models, events, commands, errors.

Every enum, model, event and error code of the product is written once, in this package. It depends on
pydantic alone, and imports nothing of its three siblings.
"""
