packhouse_room(cluster
  FOLDER stores/keys
  SOURCES cluster_life.cc key_value_store.cc replica_lease.cc shared_change.cc shared_uses.cc
  DEPENDS packhouse_admission absl::hash)

packhouse_room(keys_logged
  FOLDER stores/logs
  SOURCES logged_keys.cc
  DEPENDS packhouse_cluster packhouse_stored_proto)

packhouse_room(logs_shared
  FOLDER stores/logs
  SOURCES shared_log.cc
  DEPENDS packhouse_cluster)

packhouse_room(datasets
  FOLDER stores/datasets
  SOURCES chunk_record.cc dataset_copy.cc dataset_store.cc mixed_datasets.cc prepared_append.cc quota_dataset_store.cc
          record_dataset_reader.cc record_verification.cc retained_datasets.cc
          store_check.cc store_watch.cc stored_values.cc
  DEPENDS packhouse_graphs packhouse_histograms packhouse_cluster packhouse_stored_proto)

packhouse_room(datasets_lmdb
  FOLDER stores/lmdb
  SOURCES checked_value.cc data_file_watch.cc datasets_cut.cc group_commit.cc
          lmdb_compaction.cc lmdb_dataset_eraser.cc lmdb_dataset_store.cc
          lmdb_dataset_values.cc lmdb_dataset_verify.cc lmdb_environment.cc lmdb_meta_pages.cc
          lmdb_page_check.cc lmdb_shared_store.cc lmdb_status.cc lmdb_store_check.cc
          lmdb_transaction.cc lmdb_tree_page.cc map_guard.cc page_file.cc
          store_folder.cc store_format.cc stored_keys.cc
  DEPENDS packhouse_datasets packhouse_stored_proto ${LMDB_LIBRARY})

packhouse_room(objects
  FOLDER stores/objects
  SOURCES object_store.cc retrying_object_store.cc
  DEPENDS packhouse_base)
