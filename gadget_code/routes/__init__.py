"""The REST API, one module per resource. A route authorises and calls the store or an action: there is no layer
between."""
