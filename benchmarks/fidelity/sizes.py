"""The sizes of sets I to AE, drawn: ``python -m benchmarks.fidelity.sizes`` prints what its workloads' files have.

Each rank is drawn from its range, small sizes as often as large ones of as many times the size.
"""

from __future__ import annotations

import math
from random import Random

RANGES: dict[int, dict[str, dict[str, tuple[int, int]]]] = {
    2611: {
        "permuted_sums": {"A": (10, 40), "B": (10, 40), "C": (10, 40), "D": (10, 40), "E": (8, 24), "F": (8, 24)},
        "sampled_product": {"M": (200, 600), "N": (200, 600), "K": (60, 300)},
        "strided_conv2d": {"C": (8, 40), "D": (12, 60), "Y": (20, 50), "X": (20, 50)},
        "gated_linear": {"M": (100, 500), "D": (100, 400), "H": (200, 700)},
        "log_softmax": {"M": (500, 4000), "N": (150, 1200)},
        "residual_norm": {"M": (500, 4000), "N": (150, 1200)},
        "grouped_decoding": {"G": (3, 10), "Q": (3, 8), "P": (500, 3000), "E": (32, 100)},
        "batched_matvec": {"B": (30, 300), "M": (150, 700), "K": (150, 700)},
    },
    2612: {
        "turned_product": {"A": (30, 120), "B": (30, 120), "C": (30, 120), "K": (40, 200)},
        "gated_batch": {"B": (3, 12), "I": (60, 250), "J": (60, 250), "K": (60, 250)},
        "separable_conv": {"C": (20, 80), "D": (24, 120), "Y": (30, 80), "X": (30, 80)},
        "tanh_gated": {"M": (100, 400), "D": (100, 300), "H": (150, 500), "E": (60, 200)},
        "biased_softmax": {"H": (3, 10), "M": (100, 400), "N": (100, 400)},
        "moment_norm": {"M": (500, 4000), "N": (150, 1200)},
        "latent_decoding": {"H": (6, 30), "P": (500, 3000), "E": (40, 160)},
        "two_sided_matvec": {"M": (400, 2500), "N": (400, 2500)},
    },
    2613: {
        "two_sums_product": {"A": (30, 120), "B": (4, 16), "D": (30, 120), "K": (16, 60), "L": (6, 24)},
        "spectral_product": {"I": (120, 500), "J": (120, 500), "K": (80, 350)},
        "strided_depthwise": {"C": (20, 80), "Y": (24, 70), "X": (24, 70)},
        "error_gated": {"M": (100, 400), "D": (100, 300), "H": (150, 500), "E": (60, 200)},
        "tempered_softmax": {"H": (3, 10), "M": (100, 400), "N": (100, 400)},
        "gated_norm": {"M": (500, 4000), "N": (150, 1200)},
        "sloped_decoding": {"H": (6, 30), "P": (500, 3000), "E": (40, 160)},
        "batched_vecmat": {"B": (4, 20), "M": (200, 900), "N": (200, 900)},
    },
    2614: {
        "crossed_product": {"A": (12, 40), "B": (12, 40), "C": (12, 40), "D": (12, 40), "K": (60, 250)},
        "weighted_contraction": {"I": (30, 120), "J": (16, 60), "K": (40, 200), "R": (24, 100)},
        "inverted_conv": {"C": (16, 60), "D": (30, 120), "Y": (20, 60), "X": (20, 60)},
        "relu_gated": {"M": (100, 400), "D": (100, 300), "H": (150, 500), "E": (60, 200)},
        "capped_softmax": {"H": (3, 10), "M": (100, 400), "N": (100, 400)},
        "unit_norm": {"M": (500, 4000), "N": (150, 1200)},
        "scaled_decoding": {"H": (6, 30), "P": (500, 3000), "E": (40, 160)},
        "gated_matvec": {"M": (400, 2500), "K": (400, 2500)},
    },
    2615: {
        "turned_batch": {"B": (6, 24), "A": (40, 160), "C": (40, 160), "K": (40, 200)},
        "mttkrp_last": {"I": (24, 100), "J": (24, 100), "K": (60, 250), "R": (16, 64)},
        "gated_conv1d": {"N": (2, 8), "C": (12, 48), "D": (16, 64), "X": (150, 700)},
        "rowwise_gated": {"M": (100, 400), "D": (100, 300), "H": (150, 500), "E": (60, 200)},
        "sink_softmax": {"H": (3, 10), "M": (100, 400), "N": (100, 400)},
        "instance_norm": {"B": (4, 16), "C": (20, 80), "S": (400, 3000)},
        "multi_query_decoding": {"H": (6, 30), "P": (1000, 6000), "E": (40, 160)},
        "few_vectors": {"V": (2, 8), "M": (400, 2000), "K": (400, 2000)},
    },
    2616: {
        "interleaved_product": {"A": (30, 120), "C": (20, 80), "D": (8, 32), "K": (16, 64), "L": (6, 24)},
        "diagonal_product": {"M": (100, 400), "N": (100, 400), "K": (100, 400)},
        "residual_conv": {"N": (1, 4), "C": (16, 64), "Y": (20, 60), "X": (20, 60)},
        "biased_gated": {"M": (100, 400), "D": (100, 300), "H": (150, 500), "E": (60, 200)},
        "middle_softmax": {"B": (4, 16), "N": (100, 400), "C": (40, 200)},
        "column_norm": {"M": (400, 3000), "N": (150, 1200)},
        "batched_decoding": {"B": (2, 8), "H": (4, 12), "P": (300, 1500), "E": (40, 130)},
        "low_rank_matvec": {"M": (400, 2500), "K": (400, 2500), "R": (8, 32)},
    },
    2617: {
        "five_axes": {"A": (8, 24), "B": (8, 24), "C": (8, 24), "D": (8, 24), "E": (8, 24), "K": (40, 160)},
        "tensor_train": {"I": (24, 90), "J": (16, 60), "K": (24, 90), "R": (6, 20), "S": (6, 20)},
        "channels_last_conv": {"C": (16, 64), "D": (16, 64), "Y": (20, 60), "X": (20, 60)},
        "columnwise_gated": {"M": (100, 400), "D": (100, 300), "H": (150, 500), "E": (60, 200)},
        "spatial_softmax": {"B": (3, 12), "C": (10, 40), "Y": (20, 60), "X": (20, 60)},
        "channel_norm": {"B": (3, 12), "C": (40, 200), "S": (150, 1200)},
        "turned_decoding": {"H": (6, 20), "P": (400, 2000), "E": (40, 130)},
        "middle_matvec": {"K": (10, 60), "M": (100, 600), "L": (100, 500)},
    },
    2618: {
        "ladder_term": {"O": (6, 14), "V": (14, 36)},
        "gravity": {"N": (300, 1400)},
        "graph_layer": {"N": (150, 600), "F": (30, 120), "G": (30, 120)},
        "beam_power": {"B": (30, 120), "M": (16, 64), "T": (200, 1000)},
        "cost_volume": {"C": (12, 48), "Y": (24, 80), "X": (60, 180), "D": (12, 40)},
        "factor_machine": {"B": (200, 1000), "I": (80, 400), "F": (16, 64)},
        "stiffness": {"E": (500, 4000), "Q": (8, 24), "I": (6, 20)},
        "mixture_scores": {"N": (400, 2500), "K": (12, 60), "D": (6, 30)},
    },
    2619: {
        "windowed_attention": {"H": (3, 8), "I": (400, 1600), "W": (24, 96), "D": (32, 96)},
        "lattice_collision": {"N": (12000, 80000)},
        "covariance_step": {"B": (100, 600), "N": (24, 64)},
        "basket_option": {"P": (4000, 24000), "A": (24, 80)},
        "joint_bilateral": {"Y": (80, 240), "X": (100, 300), "R": (5, 9)},
        "motif_scan": {"N": (16, 64), "P": (150, 600), "W": (8, 20), "M": (24, 96)},
        "mel_spectrum": {"T": (120, 500), "N": (128, 400), "F": (64, 256), "M": (24, 80)},
        "transport_step": {"I": (400, 2000), "J": (400, 2000)},
    },
    2620: {
        "sphere_synthesis": {"L": (40, 120), "M": (40, 100), "T": (40, 120), "K": (8, 32), "P": (80, 240)},
        "gram_schmidt": {"N": (2000, 12000), "K": (16, 80), "B": (12, 64)},
        "transducer_joint": {"T": (80, 300), "U": (16, 60), "H": (24, 96), "V": (20, 80)},
        "flow_step": {"Y": (80, 240), "X": (100, 300), "R": (5, 9)},
        "ambiguity_map": {"T": (400, 2000), "D": (24, 120), "F": (24, 96)},
        "kinship": {"N": (80, 300), "S": (400, 2500)},
        "gate_step": {"A": (6, 30), "B": (6, 30), "C": (24, 160), "P": (2, 4)},
        "topic_update": {"M": (400, 1600), "N": (300, 1200), "R": (10, 40)},
    },
    2621: {
        "state_step": {"B": (4, 32), "D": (200, 1200), "N": (8, 32)},
        "arm_inertia": {"P": (300, 2500), "K": (5, 9)},
        "wave_step": {"Y": (200, 1200), "X": (200, 1200)},
        "sky_image": {"V": (100, 500), "P": (24, 72), "Q": (24, 72)},
        "site_environment": {"A": (24, 96), "W": (3, 8), "S": (2, 4)},
        "light_sum": {"P": (2000, 16000), "L": (8, 48)},
        "wavelet_level": {"V": (120, 600), "X": (120, 600), "K": (4, 10)},
        "shared_information": {"N": (400, 2400), "I": (16, 64), "J": (16, 64)},
    },
    2622: {
        "cauchy_likelihood": {"N": (500, 4000), "I": (16, 64), "J": (8, 32)},
        "coherence": {"F": (16, 64), "I": (16, 64), "T": (60, 300)},
        "element_matrix": {"E": (300, 2500), "Q": (6, 16), "I": (6, 16)},
        "reprojection": {"V": (16, 80), "N": (1000, 6000)},
        "sine_layer": {"N": (200, 1600), "D": (8, 40), "H": (64, 256), "C": (3, 12)},
        "option_book": {"S": (100, 600), "K": (60, 300), "T": (4, 16)},
        "electron_density": {"G": (600, 5000), "M": (24, 96)},
        "flood_step": {"Y": (200, 1200), "X": (200, 1200)},
    },
    2623: {
        "bispectrum": {"S": (300, 1500), "F": (24, 96), "G": (24, 96)},
        "logistic_fit": {"N": (800, 4000), "D": (6, 24), "K": (16, 64)},
        "ray_hits": {"N": (800, 4000), "S": (40, 200)},
        "quantised_layer": {"N": (100, 500), "I": (80, 400), "O": (60, 300)},
        "strain_rate": {"N": (20000, 100000)},
        "sinkhorn_step": {"I": (300, 1200), "J": (300, 1200)},
        "local_contrast": {"Y": (160, 600), "X": (160, 600), "R": (3, 7), "S": (3, 7)},
        "prediction_residual": {"F": (100, 500), "T": (200, 800), "K": (8, 20)},
    },
    2624: {
        "tree_likelihood": {"S": (1000, 6000), "C": (2, 6)},
        "late_interaction": {"D": (40, 200), "T": (40, 160), "Q": (16, 40), "E": (32, 128)},
        "scattering_source": {"N": (16, 48), "L": (9, 25), "G": (6, 24), "X": (200, 1500)},
        "tone_curve": {"Y": (160, 800), "X": (160, 800)},
        "bellman_backup": {"S": (150, 600), "A": (4, 20)},
        "field_update": {"X": (24, 80), "Y": (24, 80), "Z": (24, 80)},
        "matrix_profile": {"I": (200, 900), "J": (200, 900), "K": (16, 64)},
        "particle_push": {"N": (20000, 200000)},
    },
    2625: {
        "power_flow": {"I": (400, 1400)},
        "triangle_update": {"I": (40, 120), "C": (16, 64)},
        "gauge_link": {"X": (3000, 20000)},
        "phase_field": {"Y": (200, 900), "X": (200, 900)},
        "diffusion_signal": {"V": (2000, 12000), "G": (30, 120)},
        "regret_matching": {"B": (6000, 30000), "A": (10, 40), "C": (10, 40)},
        "shrinkage_step": {"M": (100, 400), "K": (150, 600), "B": (30, 120)},
        "membrane_step": {"B": (60, 240), "N": (600, 2400)},
    },
    2626: {
        "reaction_rates": {"B": (300, 2000), "R": (30, 120), "S": (10, 40)},
        "epidemic_step": {"B": (60, 240), "I": (100, 500)},
        "blend_skinning": {"V": (3000, 20000), "B": (16, 64)},
        "polyphase_bank": {"T": (150, 800), "P": (4, 12), "N": (32, 128)},
        "fuzzy_means": {"N": (4000, 20000), "K": (8, 40), "F": (4, 24)},
        "block_denoising": {"B": (500, 4000)},
        "median_filter": {"Y": (200, 900), "X": (200, 900)},
        "contrastive_step": {"B": (40, 160), "I": (80, 300), "J": (60, 240)},
    },
    2627: {
        "structure_factors": {"H": (150, 800), "J": (60, 300)},
        "stress_return": {"N": (4000, 30000)},
        "coupled_features": {"N": (200, 1500), "C": (8, 32), "R": (6, 16)},
        "choice_shares": {"I": (300, 2000), "J": (40, 200), "K": (4, 12)},
        "binary_patterns": {"Y": (150, 700), "X": (150, 700)},
        "hologram_step": {"I": (60, 240), "J": (60, 240), "K": (60, 240)},
        "lag_differences": {"N": (30, 120), "T": (200, 800), "L": (30, 120)},
        "pair_loss": {"B": (20, 100), "I": (60, 240)},
    },
    2628: {
        "semblance": {"G": (4, 16), "N": (24, 96), "T": (200, 800), "W": (5, 15)},
        "corner_strength": {"Y": (120, 500), "X": (120, 500), "R": (3, 7)},
        "symbol_distances": {"B": (100, 800), "S": (32, 160), "R": (4, 16), "T": (2, 8)},
        "hyperbolic_distances": {"I": (100, 500), "J": (100, 500), "D": (6, 24)},
        "limited_flux": {"B": (60, 240), "X": (200, 1200)},
        "gaussian_divergence": {"N": (80, 320), "M": (80, 320), "D": (8, 40)},
        "tail_loss": {"P": (60, 240), "S": (200, 1000), "A": (24, 96)},
        "commutator_step": {"B": (20, 100), "I": (12, 48)},
    },
    2629: {
        "risk_sets": {"N": (300, 1500), "D": (8, 40)},
        "spline_layer": {"N": (60, 240), "I": (16, 64), "G": (5, 12), "O": (24, 96)},
        "echo_canceller": {"C": (4, 16), "P": (4, 16), "F": (100, 500)},
        "oscillator_step": {"B": (8, 40), "I": (80, 320)},
        "emission_step": {"L": (400, 2400), "V": (400, 2400)},
        "community_distances": {"I": (80, 320), "J": (80, 320), "K": (24, 120)},
        "modularity": {"I": (200, 900), "C": (12, 60)},
        "smoothed_density": {"I": (300, 1400)},
    },
    2630: {
        "item_information": {"N": (300, 1500), "I": (40, 160), "D": (2, 6)},
        "heat_conduction": {"Y": (120, 600), "X": (120, 600)},
        "additive_tones": {"V": (6, 30), "T": (500, 4000), "H": (12, 60)},
        "maxout": {"N": (60, 300), "I": (40, 200), "K": (3, 8), "O": (40, 200)},
        "opinion_step": {"B": (8, 40), "I": (80, 320)},
        "electrode_currents": {"N": (200, 900), "P": (40, 200), "M": (60, 300)},
        "pair_ratings": {"B": (4, 16), "I": (80, 320)},
        "spectral_colours": {"P": (8000, 40000), "L": (31, 81)},
    },
    2631: {
        "variogram_sum": {"I": (200, 1000), "J": (200, 1000)},
        "muscle_torques": {"T": (500, 4000), "M": (24, 96), "J": (6, 24)},
        "dose_superposition": {"P": (60, 300), "T": (60, 300), "D": (6, 24)},
        "parity_checks": {"B": (30, 120), "C": (100, 500), "E": (6, 16)},
        "line_shapes": {"N": (6, 30), "F": (300, 1500), "L": (24, 120)},
        "rational_patch": {"P": (40, 200), "U": (8, 32), "V": (8, 32)},
        "column_energy": {"C": (2000, 12000), "Z": (30, 90)},
        "preconditioned_step": {"B": (2, 8), "I": (80, 300), "J": (80, 300)},
    },
    2632: {
        "distance_covariance": {"I": (150, 600)},
        "capsule_routing": {"B": (4, 16), "I": (60, 300), "O": (6, 20), "D": (8, 24)},
        "symmetry_functions": {"I": (80, 320), "J": (80, 320), "E": (5, 16)},
        "spin_glass": {"B": (8, 40), "I": (150, 600)},
        "riccati_step": {"B": (30, 200), "I": (16, 56)},
        "coil_encoding": {"C": (4, 16), "K": (24, 96), "Y": (32, 128), "X": (32, 128)},
        "divisive_normalisation": {"C": (6, 24), "Y": (32, 128), "X": (32, 128), "R": (5, 9)},
        "canopy_light": {"C": (500, 3000), "L": (20, 80)},
    },
    2633: {
        "attention_gradient": {"H": (2, 8), "M": (60, 240), "N": (60, 240), "E": (24, 80)},
        "fast_weights": {"B": (60, 400), "E": (32, 128), "D": (32, 128)},
        "hidden_states": {"B": (200, 1200), "I": (24, 96)},
        "molecule_scattering": {"I": (80, 320), "Q": (16, 64)},
        "fock_matrix": {"I": (22, 48)},
        "credit_losses": {"S": (200, 1000), "N": (100, 500), "F": (4, 16)},
        "back_projection": {"Y": (32, 96), "X": (32, 96), "A": (12, 48), "D": (32, 96)},
        "orthogonal_step": {"I": (60, 240), "J": (100, 500)},
    },
}
"""Seed -> workload -> the least and the largest size of each of its ranks that is drawn; the others follow from these."""


def sizes() -> dict[str, dict[str, int]]:
    """Workload -> the sizes that its set's seed gives."""
    found = {}
    for seed, cases in RANGES.items():
        random = Random(seed)
        for case, ranges in cases.items():
            found[case] = {rank: round(math.exp(random.uniform(math.log(low), math.log(high)))) for rank, (low, high) in ranges.items()}
    return found


if __name__ == "__main__":
    for case, found in sizes().items():
        print(f"{case}: {found}")
