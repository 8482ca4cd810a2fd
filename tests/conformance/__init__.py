"""Web-platform-tests conformance and validation vectors against the library."""
