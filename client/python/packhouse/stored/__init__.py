"""What a server keeps by name: data sets, histograms, jobs, models of devices."""
