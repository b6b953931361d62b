"""The processes that serve: `gadget-code serve` and `gadget-code up`, uvicorn, its connections."""
