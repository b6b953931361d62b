"""The contract between the parts of Gadget Code: ids, models, events, commands, errors.

This package defines every enum, model, event and error code of the product once. It depends on pydantic alone and
imports none of its three sibling packages.
"""
