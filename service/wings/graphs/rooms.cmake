packhouse_room(source_graphs
  FOLDER wings/graphs/source_graphs
  SOURCES checked_array.cc memory_source_graph.cc quota_source_graph_store.cc
          retained_source_graphs.cc seal_runs.cc source_graph.cc source_graph_schema.cc
          source_graph_store.cc
  DEPENDS packhouse_graphs packhouse_histograms packhouse_cluster)

packhouse_room(sampling
  FOLDER wings/graphs/sampling
  SOURCES draw_random.cc drawing.cc edge_choice.cc sampled_chunk.cc sampled_schema.cc sampler.cc
          sampling_plan.cc
  DEPENDS packhouse_source_graphs packhouse_tfgnn)

# Drawn numbers are the same on every machine: no multiplication and addition becomes one operation.
set_source_files_properties(wings/graphs/sampling/draw_random.cc PROPERTIES
  COMPILE_OPTIONS -ffp-contract=off SKIP_PRECOMPILE_HEADERS ON)

packhouse_room(sampled_epochs
  FOLDER wings/graphs/epochs
  SOURCES sample_window.cc sampled_dataset.cc sampled_epoch.cc seed_counter.cc size_estimate.cc
          sub_graph_source.cc
  DEPENDS packhouse_sampling packhouse_epochs)

packhouse_room(graph_files
  FOLDER wings/graphs/files
  SOURCES csv_reader.cc csv_rows.cc example_rows.cc field_values.cc npy_header.cc unigraph.cc
  DEPENDS packhouse_source_graphs packhouse_tfgnn)

# By itself, so that packhouse-partition, which reads arrays, needs no Protobuf.
set_source_files_properties(wings/graphs/files/npy_header.cc PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)

packhouse_room(source_graphs_stored
  FOLDER wings/graphs/stored
  SOURCES array_file.cc disk_space.cc file_source_graph_store.cc graph_files.cc graph_list.cc
          graph_sealer.cc graph_verification.cc linked_graphs.cc logged_rows.cc
          mapped_source_graph.cc node_ids.cc row_log.cc row_records.cc seal_nodes.cc
          seal_task.cc source_graph_check.cc source_graph_folder.cc source_graph_names.cc
  DEPENDS packhouse_source_graphs packhouse_admission packhouse_stored_proto absl::cleanup)

# Messages, for the fuzzers too.
packhouse_room(graph_wire
  FOLDER wings/graphs/services
  SOURCES sample_handler.cc samples_kind.cc source_graph_append_handler.cc source_graph_rows.cc
          wire_sampling.cc wire_source_graphs.cc
  DEPENDS packhouse_wire packhouse_sampled_epochs)

# What its commands and snapshots have of it.
packhouse_room(graphs_in_folder QUICK
  FOLDER program/wings
  SOURCES graphs_in_folder.cc
  DEPENDS packhouse_data_folder packhouse_source_graphs_stored)


if(PACKHOUSE_WITH_GRPC)
  packhouse_room(graph_services
    FOLDER wings/graphs/services
    HEADERS packhouse_grpc_headers
    SOURCES graph_server.cc sampling_service.cc source_graph_service.cc
    DEPENDS packhouse_rpc packhouse_graph_wire)

  # What packhoused has of it.
  packhouse_room(graphs_wing QUICK
    FOLDER program/wings
    HEADERS packhouse_grpc_headers
    SOURCES graphs.cc
    DEPENDS packhouse_graph_services packhouse_graphs_in_folder packhouse_program)
endif()
