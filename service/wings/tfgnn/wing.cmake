packhouse_wing(tfgnn)
