packhouse_room(histograms_shared QUICK
  FOLDER wings/cluster/histograms
  SOURCES shared_histogram_changes.cc shared_histogram_format.cc shared_histogram_store.cc
          waiting_counts.cc
  DEPENDS packhouse_histograms packhouse_logs_shared packhouse_stored_proto absl::cleanup)

packhouse_room(objects_s3
  FOLDER wings/cluster/s3
  SOURCES s3_credentials.cc s3_listing.cc s3_object_store.cc
  DEPENDS packhouse_objects CURL::libcurl)

packhouse_room(datasets_object
  FOLDER wings/cluster/datasets
  SOURCES chunk_builder.cc chunk_cache.cc chunk_fetcher.cc helping_threads.cc object_appender.cc
          object_dataset_store.cc object_engines.cc object_manifest.cc object_read_ahead.cc
          object_sweeper.cc object_values.cc store_identity.cc timed_leases.cc
  DEPENDS packhouse_datasets packhouse_cluster packhouse_objects packhouse_stored_proto
          absl::cleanup)

packhouse_room(source_graphs_object
  FOLDER wings/cluster/graphs
  SOURCES graph_sweeper.cc graph_upload.cc joined_objects.cc object_companions.cc
          object_source_graph_store.cc piece_reader.cc piece_upload.cc shared_graph_values.cc
  DEPENDS packhouse_datasets_object packhouse_source_graphs_stored packhouse_shared_graph_proto)

# Of the ledger it sees the log's interface, and nothing that would have to be linked.
packhouse_room(ledger_etcd QUICK
  FOLDER wings/cluster/jobs
  SOURCES etcd_job_directory.cc etcd_job_logs.cc etcd_record_log.cc job_keys.cc
  DEPENDS packhouse_logs_shared)

packhouse_room(cluster_check QUICK
  FOLDER wings/cluster/check
  SOURCES cluster_check.cc cluster_repair.cc key_damages.cc
  DEPENDS packhouse_source_graphs_object packhouse_histograms_shared packhouse_ledger_etcd
          packhouse_ledger packhouse_feedback)

packhouse_room(cluster_snapshot QUICK
  FOLDER program/wings
  SOURCES cluster_snapshot.cc
  DEPENDS packhouse_source_graphs_object packhouse_data_folder)

if(PACKHOUSE_WITH_GRPC)
  packhouse_room(cluster_etcd QUICK
    FOLDER wings/cluster/etcd
    HEADERS packhouse_grpc_headers
    SOURCES etcd_messages.cc etcd_options.cc etcd_store.cc
    DEPENDS packhouse_cluster packhouse_etcd_proto)

  packhouse_room(shared_datasets QUICK
    FOLDER wings/cluster/shared
    HEADERS packhouse_grpc_headers
    SOURCES s3_address.cc shared_datasets.cc store_uri.cc
    DEPENDS packhouse_source_graphs_object packhouse_objects_s3 packhouse_cluster_etcd
            packhouse_data_folder packhouse_security)

  # What packhoused has of it.
  packhouse_room(cluster_wing QUICK
    FOLDER program/wings
    HEADERS packhouse_grpc_headers
    SOURCES address_flags.cc check_shared.cc cluster.cc copy_command.cc etcd_membership.cc
            snapshot_shared.cc
    DEPENDS packhouse_shared_datasets packhouse_cluster_check packhouse_cluster_snapshot
            packhouse_program)
endif()
