packhouse_wing(graphs
  NEEDS tfgnn
  PROGRAM GraphsInProgram
  FLAGS --max-source-graph-bytes --max-source-graphs --source-graph-retention
  SERVICES packhouse.v1.SamplingService packhouse.v1.SourceGraphService
  KINDS samples
  FOLDERS source_graphs)
