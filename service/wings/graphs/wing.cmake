packhouse_wing(graphs NEEDS tfgnn)
