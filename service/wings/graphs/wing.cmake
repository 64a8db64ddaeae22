packhouse_wing(graphs NEEDS tfgnn PROGRAM GraphsInProgram)
