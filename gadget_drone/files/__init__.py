"""The project's files, as a person sees and changes them in a browser. Confined as the tools of the agent are."""
