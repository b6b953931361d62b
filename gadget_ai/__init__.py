"""One streaming chat interface over the openai and ollama SDKs. It does not import the web service or the drone."""
