"""MongoDB: the private server, the collections, and a base class for collections of users' records."""
