"""The slow tests: `make quick` skips them, `make test` runs everything.

A test belongs here if it takes more than a second or two: because it starts processes,
trains until something is learned, or tries very many cases.
"""

from __future__ import annotations

from collections.abc import Iterator

SLOW: dict[str, tuple[str, ...]] = {
    "experiments": (),
    "learning": (),
    "references": (),
    "scenarios": (),
    "stress": (),
    "sweeps/test_attempts.py": (
        "test_a_cell_that_ends_its_process_is_tried_a_few_times_and_the_others_are_trained",
        "test_a_killed_process_that_has_saved_a_checkpoint_does_not_count",
        "test_a_process_that_dies_before_the_cell_goes_on_counts",
        "test_a_process_that_dies_on_another_machine_counts",
        "test_only_deaths_in_a_row_count",
    ),
    "sweeps/test_local.py": (),
    "actor/test_hidden.py": (),
    "actor/test_same_input.py": (),
    "algorithms/common/test_batches.py": (),
    "algorithms/custom/test_custom.py": (
        "test_agents_of_all_kinds_learn_to_defect",
        "test_code_that_is_named_again_is_used",
        "test_runs_with_custom_algorithms_have_the_same_digest_again",
    ),
    "algorithms/kernels/test_gradients.py": (),
    "algorithms/test_agents.py": (
        "test_an_agent_learns_from_the_smallest_replay_that_is_accepted",
    ),
    "algorithms/test_iqn.py": ("test_updates_are_those_of_a_plain_implementation",),
    "algorithms/test_ppo.py": ("test_rounds_are_those_of_a_plain_implementation",),
    "algorithms/test_standard_state.py": (),
    "algorithms/test_working_bytes.py": (),
    "api/test_agents.py": ("test_a_foreign_agent_is_loaded_without_its_game",),
    "api/test_notebook.py": (),
    "api/test_progress.py": ("test_a_terminal_shows_every_seed",),
    "api/test_study.py": (
        "test_the_commands_give_a_table_with_intervals_and_a_figure",
        "test_the_lines_give_a_table_an_improvement_and_a_figure",
    ),
    "api/test_train.py": (
        "test_seeds_are_trained_side_by_side_and_are_the_runs_of_single_seeds",
    ),
    "api/test_runs.py": ("test_a_run_whose_process_is_gone_was_killed",),
    "bench/test_bench.py": (
        "test_collecting_is_compared_with_a_plain_loop_and_split_into_parts",
        "test_processes_are_compared_with_one_and_with_a_plain_loop_at_equal_work",
        "test_updating_is_compared_with_a_plain_loop_and_with_matrix_products",
    ),
    "bench/test_peers.py": (
        "test_peers_are_compared_and_a_note_names_the_one_that_is_missing",
        "test_tianshou_trains_with_one_world_and_with_several",
        "test_updates_of_jax_and_of_the_plain_loop_are_the_same_up_to_rounding",
    ),
    "cli/test_cli.py": (
        "test_a_reader_that_closes_the_pipe_is_not_an_error",
        "test_a_result_that_cannot_be_written_is_one_line_and_code_1",
        "test_a_traceback_is_shown_only_with_debug",
        "test_characters_that_an_encoding_lacks_are_escaped",
        "test_check_fails_and_names_the_broken_promise",
    ),
    "cli/test_train.py": (
        "test_an_interrupted_run_saves_its_last_round_and_prints_the_next_command",
        "test_no_seed_outlives_the_process_that_started_it",
        "test_seeds_are_trained_side_by_side_into_one_folder",
        "test_seeds_that_are_stopped_save_their_state",
        "test_train_prints_one_json_object",
    ),
    "config/test_toml.py": ("test_what_is_written_resolves_to_the_same_configuration",),
    "games/adapters/test_gymnasium.py": ("test_a_gymnasium_game_conforms",),
    "games/adapters/test_ids.py": (),
    "games/adapters/test_pettingzoo.py": ("TestEveryGame",),
    "games/conformance/test_checks.py": (
        "test_agent_that_always_acts_first_is_found",
        "test_double_counted_gem_is_found",
        "test_grid_game_acting_in_turn_passes_every_check",
        "test_grid_game_passes_every_check_at_full_length",
        "test_nothing_of_the_old_episode_remains_in_a_shipped_game",
        "test_planted_seat_advantage_is_found",
        "test_shipped_game_passes_every_check",
        "test_world_of_sixteen_equals_the_same_world_alone",
    ),
    "games/gridworld/test_engine.py": (
        "test_world_of_many_plays_like_the_same_world_alone",
    ),
    "games/gridworld/test_first_game.py": (),
    "games/mistakes/test_commands.py": (
        "test_what_a_player_raises_in_another_process_is_the_same_line",
    ),
    "games/mistakes/test_mistakes.py": (
        "test_good_game_in_a_users_file_has_neither_errors_nor_notes",
    ),
    "learner/test_long_transitions.py": (),
    "learner/test_stacking.py": (
        "test_an_agent_learns_the_same_stacked_as_on_its_own",
        "test_learning_again_gives_the_same_bits_and_another_seed_does_not",
    ),
    "reproduction/test_catalogue.py": ("test_every_result_can_be_planned",),
    "reproduction/test_reproduce.py": (
        "test_a_folder_that_has_begun_is_continued",
        "test_a_result_is_reached_and_is_not_if_its_setting_is_spoiled",
        "test_digests_are_those_of_the_same_seeds_and_of_no_others",
        "test_the_exit_code_says_whether_it_was_reached",
        "test_with_other_settings_there_is_no_expected_digest",
    ),
    "runs/test_disk_full.py": (),
    "runs/test_health.py": (
        "test_the_health_of_every_process_is_seen_live_with_its_agents",
    ),
    "runs/test_longer.py": (),
    "runs/test_resume.py": (),
    "storage/test_access.py": (),
    "storage/test_damage.py": (),
    "sweeps/test_command.py": (
        "test_a_plan_in_a_file_is_trained_and_its_code_must_be_named",
        "test_a_sweep_is_planned_trained_and_summed_up_by_one_command",
        "test_from_python_a_sweep_is_trained_and_the_same_call_goes_on_with_it",
    ),
    "sweeps/test_seeds.py": (
        "test_a_sweep_of_several_combinations_is_resumed_and_trained_longer",
        "test_a_users_game_and_probe_must_be_named_again",
        "test_two_commands_share_out_the_seeds_and_both_end_when_all_are_done",
    ),
    "sweeps/test_sharing.py": (),
    "sweeps/test_work.py": (
        "test_a_killed_worker_leaves_its_cell_to_the_next_one",
        "test_a_worker_leaves_before_its_time_is_over",
        "test_a_worker_that_gets_a_signal_saves_its_cell_and_says_so_with_its_exit_code",
        "test_two_workers_share_out_the_cells_and_each_is_trained_once",
    ),
    "studies/test_independence.py": (
        "test_a_common_origin_is_named_and_does_not_count_as_shared",
        "test_a_gradient_clipped_by_the_norm_of_all_agents_is_found",
        "test_altering_one_agent_changes_not_one_bit_of_the_others",
        "test_custom_networks_in_one_module_are_independent",
        "test_random_numbers_keyed_by_index_and_not_by_agent_are_found",
        "test_state_that_custom_code_shares_is_found_and_named",
    ),
    "studies/test_schelling.py": (
        "test_cleanup_is_a_dilemma_of_greed",
        "test_harvest_is_a_dilemma_of_greed_and_fear",
        "test_staghunt_is_a_dilemma_of_fear_only",
    ),
    "sweeps/test_remote.py": (),
    "sweeps/test_search.py": (),
    "supervisor/test_child.py": ("test_children_import_nothing_that_only_main_needs",),
    "training/test_executors.py": (
        "test_a_run_that_is_killed_again_and_again_gives_the_same_bits",
    ),
}
"""Folders and files below tests/, whole or with the names of single tests in them."""


def is_slow(node: str) -> bool:
    """Whether a test is slow, by its node id: a path below the root, and its name."""
    return any(node.startswith(prefix) for prefix in _prefixes())


def _prefixes() -> Iterator[str]:
    for path, names in SLOW.items():
        if not names:
            yield f"tests/{path}" + ("::" if path.endswith(".py") else "/")
        for name in names:
            yield f"tests/{path}::{name}"
