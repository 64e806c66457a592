"""Names that other libraries use for Rookery's settings.

A setting that is unknown here but common elsewhere, such as `gamma` or `total_timesteps`,
is answered with Rookery's name for it.
"""

from __future__ import annotations

from typing import NamedTuple


class Synonym(NamedTuple):
    """A name from elsewhere, explained."""

    settings: tuple[str, ...] = ()
    """Rookery's settings for it; none if there is nothing like it."""
    note: str = ""
    """How the meaning differs, or why there is nothing like it."""


_LENGTH = Synonym(("rounds",), "a run has rounds × turns_per_round × worlds world-turns")
_NO_DEVICE = Synonym((), "Rookery computes on the CPU only: leave it out")
_WIDTH = Synonym(("network.width", "network.depth"))
_ROLLOUT = "turns_per_round is the length of a rollout, game.turns that of an episode"

_MEANINGS: dict[Synonym, str] = {
    Synonym(("discount",)): "gamma, discount_factor",
    Synonym(("learning_rate",)): "lr, step_size, adam_lr",
    Synonym(("worlds",)): "n_envs, num_envs, nenvs, n_parallel, num_parallel_envs",
    _LENGTH: (
        "total_timesteps, timesteps, total_steps, max_timesteps, num_timesteps, "
        "num_env_steps, max_steps, num_steps, epochs, num_epochs, iterations, "
        "num_iterations, train_steps"
    ),
    Synonym(
        ("rounds", "evaluate.episodes"),
        "rounds is the length of training, evaluate.episodes that of an evaluation",
    ): "num_episodes, n_episodes, max_episodes",
    Synonym(("replay.capacity",)): (
        "buffer_size, replay_size, replay_buffer_size, memory_size, replay_capacity"
    ),
    Synonym(("replay.warmup",)): "learning_starts, start_steps, min_replay_size",
    Synonym(("replay.kind",), "replay.kind=prioritised turns it on"): (
        "prioritized_replay, prioritised_replay, prioritized, per"
    ),
    Synonym(("replay.exponent",)): "per_alpha, priority_exponent, prioritized_replay_alpha",
    Synonym(("replay.correction",)): "per_beta, importance_exponent",
    Synonym(("batch_size",)): "batch, minibatch_size, train_batch_size, batchsize",
    Synonym(("target.rate",)): "tau, polyak",
    Synonym(("target.every", "target.rate"), "target.rate=1 copies the network"): (
        "target_update_interval, target_update_freq, target_network_frequency, "
        "target_update, target_update_period"
    ),
    Synonym(
        ("n_step", "turns_per_round"),
        "n_step is for n-step returns, turns_per_round is the length of a rollout",
    ): "n_steps, nsteps, nstep",
    Synonym(("turns_per_round", "game.turns"), _ROLLOUT): (
        "horizon, rollout_length, rollout_fragment_length, unroll_length"
    ),
    Synonym(("game.turns",)): (
        "episode_length, max_episode_steps, max_episode_length, max_cycles, time_limit"
    ),
    Synonym(("game.agents",)): "n_agents, num_agents, nagents, n_players, num_players",
    Synonym(("ppo.gae",)): "gae_lambda, gae, lam, lambda",
    Synonym(("ppo.entropy", "vtrace.entropy")): (
        "ent_coef, entropy_coef, entropy_coeff, entropy_coefficient, entropy_bonus"
    ),
    Synonym(("ppo.value", "vtrace.value")): (
        "vf_coef, vf_loss_coeff, value_coef, value_loss_coef"
    ),
    Synonym(("ppo.clip",)): "clip_range, clip_param, clip_eps, clip_epsilon, clip_ratio",
    Synonym(
        ("ppo.passes", "vtrace.passes")
    ): "n_epochs, ppo_epochs, num_sgd_iter, ppo_epoch",
    Synonym(("ppo.minibatches", "vtrace.minibatches")): (
        "n_minibatches, num_minibatches, nminibatches, num_mini_batch"
    ),
    Synonym(("gradient.clip",)): "max_grad_norm, grad_clip, clip_grad_norm, grad_norm_clip",
    Synonym(("gradient.accumulate",)): "accumulate_grad_batches, grad_accumulation",
    Synonym(
        ("epsilon.steps",), "it counts steps of the agent, not a fraction of the run"
    ): (
        "exploration_fraction, eps_decay, epsilon_decay, exploration_steps, "
        "epsilon_timesteps, eps_decay_steps"
    ),
    Synonym(("epsilon.start",)): "exploration_initial_eps, eps_start, initial_epsilon, eps",
    Synonym(("epsilon.end",)): (
        "exploration_final_eps, eps_end, final_epsilon, eps_min, epsilon_min"
    ),
    Synonym(("epsilon.temperature",)): "softmax_temperature, boltzmann_temperature",
    _WIDTH: (
        "hidden_size, hidden_sizes, hidden_dim, hidden_units, net_arch, fcnet_hiddens, "
        "layer_size, hidden"
    ),
    Synonym(("network.depth",)): "num_layers, n_layers, layers",
    Synonym(("network.quantiles", "iqn.acting_quantiles")): "n_quantiles, num_quantiles",
    Synonym(("recurrent.width",)): "lstm_hidden_size, rnn_hidden_dim, gru_size, rnn_size",
    Synonym(("recurrent.sequence",)): "sequence_length, seq_len, max_seq_len",
    Synonym(("frames",)): "frame_stack, framestack, n_frames, num_frames, n_stack, stack",
    Synonym(("updates_per_round",)): (
        "train_freq, gradient_steps, updates_per_step, train_frequency, replay_ratio, utd"
    ),
    Synonym(("workers",), "they only learn; game.agents is the number of agents"): (
        "num_workers, n_workers, n_jobs, num_cpu, num_processes, num_threads"
    ),
    Synonym(("seed",)): "random_seed, rng_seed, random_state",
    Synonym(("evaluate.every_rounds",)): "eval_freq, eval_interval, evaluation_interval",
    Synonym(("evaluate.episodes",)): "n_eval_episodes, eval_episodes, num_eval_episodes",
    Synonym(("checkpoints.every_rounds",)): (
        "save_freq, save_interval, checkpoint_freq, checkpoint_interval, save_every"
    ),
    Synonym(("reward.scale",)): "reward_scale, reward_scaling",
    Synonym(("reward.clip",)): "clip_reward, clip_rewards, reward_clip",
    Synonym(("reward.standardise",)): "normalize_reward, norm_reward, normalise_rewards",
    Synonym(("rate.schedule",)): "lr_schedule, anneal_lr, lr_scheduler, lr_decay",
    Synonym(("game.name",)): "env, env_id, env_name, environment, scenario, substrate",
    Synonym(
        (),
        "agents.ID.player=NAME names the scripted player of an agent; evaluate, replay and "
        "record also have --players",
    ): "players, player, scripted, bots",
    Synonym(("algorithm",)): "algo, agent_class, alg",
    Synonym(("dqn.double", "iqn.double")): "double_q, double_dqn, use_double",
    Synonym(("dqn.noisy", "iqn.noisy")): "noisy_nets, noisy_net, use_noisy",
    _NO_DEVICE: "device, cuda, gpu, gpus, num_gpus, use_cuda, gpu_id, accelerator",
    Synonym((), "Rookery uses Adam: set learning_rate and rate.schedule"): (
        "optimizer, optimiser, optimizer_class, optim"
    ),
    Synonym((), "on the command line, --json prints no progress"): "verbose, quiet",
    Synonym((), "every run is logged to its folder: tensorboard --logdir RUN"): (
        "tensorboard_log, logdir, log_dir, use_wandb"
    ),
}

SYNONYMS: dict[str, Synonym] = {
    name.strip(): synonym
    for synonym, names in _MEANINGS.items()
    for name in names.split(",")
}
"""Names from elsewhere, in lower case with underscores."""


def find_synonym(name: str) -> Synonym | None:
    """Return the meaning of a name from elsewhere, in any case and with - or _."""
    return SYNONYMS.get(name.lower().replace("-", "_"))
