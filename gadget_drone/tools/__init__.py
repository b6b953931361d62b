"""What the model can do: the seam (`tool`, `toolbox`), the confinement of files, a module for each built-in tool."""
