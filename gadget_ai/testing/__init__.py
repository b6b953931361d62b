"""A scripted model: in the same process (`client`), over HTTP (`server`), and for `gadget-code up --demo` (`demo`)."""
