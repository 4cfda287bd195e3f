"""One page that shows a finished run, drawn from `ReportData` alone."""
