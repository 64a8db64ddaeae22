packhouse_wing(cluster NEEDS tfgnn graphs)
