"""Pictures of histograms, plans and searches, by Matplotlib."""
