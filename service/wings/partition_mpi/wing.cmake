# A program of its own: packhoused has nothing of it.
packhouse_wing(partition_mpi NEEDS tfgnn graphs partition)
