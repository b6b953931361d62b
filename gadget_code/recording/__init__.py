"""The events of running turns: recorded, relayed to watchers, folded into the turn document, replayed."""
