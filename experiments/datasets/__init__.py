"""Known data: read from files of the published form, or made by a formula."""
