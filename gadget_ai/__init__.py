"""One streaming chat interface over the openai and ollama SDKs. Imports nothing of the web service or the drone."""
