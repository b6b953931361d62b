"""MongoDB: the private server, the collections, and one class of records for all documents that a user owns."""
