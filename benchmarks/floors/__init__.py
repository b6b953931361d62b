"""Floors: the least that could do the same work, honestly written, without what makes it a product. They store
nothing, resume nothing and check nothing; what we cost is what is above them."""
