packhouse_wing(partition
  NEEDS tfgnn graphs
  PROGRAM PartitionInProgram
  FLAGS --max-running-partitions --max-waiting-partitions --max-partition-bytes
  SERVICES packhouse.v1.PartitioningService
  KINDS join_parts)
