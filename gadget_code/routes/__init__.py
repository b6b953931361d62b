"""The REST API, one module a resource. A route authorises and calls the store or a turn's verb: no layer between."""
