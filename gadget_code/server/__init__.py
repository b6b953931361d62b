"""The processes that serve: `gadget-code serve` and `gadget-code up`, uvicorn and its connections."""
