packhouse_wing(cluster
  NEEDS tfgnn graphs
  PROGRAM ClusterInProgram
  FLAGS --ledger --advertise --ledger-ca --ledger-cert --ledger-key --ledger-lease
        --s3-endpoint --s3-region --s3-credentials --s3-ca --cache-dir --cache-bytes --sweep-period
  STORES s3:
  COMMANDS copy)
