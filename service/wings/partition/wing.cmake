packhouse_wing(partition NEEDS tfgnn graphs)
