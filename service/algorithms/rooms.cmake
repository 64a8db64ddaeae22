packhouse_room(sizes
  FOLDER algorithms/sizes
  SOURCES size_schema.cc size_table.cc
  DEPENDS packhouse_base)

packhouse_room(histograms
  FOLDER algorithms/histograms
  SOURCES decaying_histogram.cc drift_detector.cc engine/histograms/histogram_file.cc
          engine/histograms/histogram_store.cc size_histogram.cc tuple_index.cc
  DEPENDS packhouse_sizes packhouse_admission)

packhouse_room(graphs
  FOLDER algorithms/graphs
  SOURCES dtype.cc graph_chunk.cc graph_schema.cc index_check.cc
  DEPENDS packhouse_sizes)

packhouse_room(planning
  FOLDER algorithms/planning
  SOURCES batch_cost.cc device_profile.cc dual_feasible_bound.cc limits.cc lower_bound.cc measured_bytes.cc
          oversize_graphs.cc packing_problem.cc pattern_pricing.cc plan.cc size_groups.cc step_order.cc
          plan_memory.cc supply_bound.cc vector_kernels.cc
  DEPENDS packhouse_histograms)

packhouse_room(planning_feedback
  FOLDER algorithms/planning/feedback
  SOURCES cost_fit.cc measured_model.cc measured_shapes.cc
  DEPENDS packhouse_planning)

packhouse_room(planning_optimizer
  FOLDER algorithms/planning/optimizer
  SOURCES budgeted_plan.cc column_generation.cc component_program.cc first_fit_decreasing.cc
          fit_index.cc fit_mask.cc lopsided_rooms.cc merged_items.cc mixing.cc pattern_program.cc
          plan_improvement.cc plan_optimizer.cc plan_receipt.cc planner_bytes.cc
  DEPENDS packhouse_planning)

packhouse_room(planning_baselines
  FOLDER algorithms/planning/baselines
  SOURCES baselines.cc merged_sizes.cc notebook_packing.cc planner.cc priority.cc tuple_packing.cc
  DEPENDS packhouse_planning_optimizer)

packhouse_room(planning_tuning
  FOLDER algorithms/planning/tuning
  SOURCES candidate_grid.cc candidate_queue.cc limit_tuner.cc shape_picker.cc shape_sets.cc
          tuning_reasons.cc
  DEPENDS packhouse_planning_optimizer)

packhouse_room(packing
  FOLDER algorithms/packing
  SOURCES companions.cc online_packer.cc pool_scan.cc
  DEPENDS packhouse_planning)

packhouse_room(collation
  FOLDER algorithms/collation
  SOURCES batch_layout.cc batch_shape.cc collate.cc compact_type.cc fake_indices.cc
          gathered_graph.cc narrowing_kernels.cc row_kernels.cc uncollate.cc
  DEPENDS packhouse_graphs packhouse_planning)

packhouse_room(pieces
  FOLDER algorithms/pieces
  SOURCES graph_cutting.cc graph_pieces.cc piece_schema.cc
  DEPENDS packhouse_graphs)
