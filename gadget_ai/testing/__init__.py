"""A scripted model: in process (`client`), over HTTP (`server`), and as the demo of `gadget-code up --demo`."""
