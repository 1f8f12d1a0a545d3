"""Workloads, and the mappings of them that were drawn before any was measured."""

from __future__ import annotations

import dataclasses
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.formats.arch import Leaf
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.writing.writer import mapping_text
from feinsum_fuse.mappings.components import fitted
from feinsum_fuse.mappings.random import random_mappings
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.schedule.target import Target

FOLDER = Path(__file__).parent
DATA = FOLDER / "data"
DEVELOPED = ("matmul", "ttmc", "bilinear", "conv3x3_1x1", "swiglu")
"""Workloads A: the model may be changed by what is seen of them."""
JUDGED = ("permuted", "three_operands", "depthwise", "gelu_residual", "softmax", "layer_norm", "decoding", "matvec")
"""Workloads B: of other kinds, judged once on each of two processors, before a rule was made by what is seen of them."""
JUDGED_NEXT = ("gram", "batched", "chain", "face_mass", "four_operands", "attention", "rms_product", "stencil")
"""Workloads C: of other kinds again, drawn before those rules; looked at once they were judged."""
JUDGED_LAST = (
    *("strided_conv1d", "max_pool", "linear_attention", "cross_entropy"),
    *("sum_factors", "batch_norm", "distances", "transposed_sum"),
)
"""Workloads D: of kinds that are in none of the others, drawn before the rules that followed; looked at once they were judged."""
HELD_OUT = (
    *("rank_one", "column_softmax", "product_float64", "nearest"),
    *("dilated_conv", "adam", "recurrent_cell", "channel_gate"),
)
"""Workloads E: of kinds that are in none of the others, drawn before any rule of a third kind of processor; looked at since."""
DRAWN = (
    *("min_plus", "low_rank", "log_sum_exp", "average_pool"),
    *("kronecker", "column_moments", "conv3d", "head_permutation"),
)
"""Workloads F: of kinds that are in none of the others, sixty mappings each; looked at since they were judged."""
LEFT_OUT = (
    *("rotary", "outer_mean", "cosine", "group_norm"),
    *("least_squares", "mish", "grouped_conv", "complex_product"),
)
"""Workloads G: of kinds that are in none of the others, up to sixty mappings each, chosen after the rules that set F led to; looked at
since two thirds of them were judged."""
UNSEEN = (
    *("kernel_sum", "cp_whole", "autocorrelation", "memory_cell"),
    *("grey_dilation", "quadratic_form", "banded", "expert_mix"),
)
"""Workloads H: of kinds that are in none of the others, sixty mappings each, drawn before the rules that set G led to; looked at since
they were judged."""
ASKED_FOR = (
    *("permuted_sums", "sampled_product", "strided_conv2d", "gated_linear"),
    *("log_softmax", "residual_norm", "grouped_decoding", "batched_matvec"),
)
"""Workloads I: of the kinds that a model of kernels is mostly asked for, sizes drawn (:mod:`.sizes`); judged once on PoCL and once on
Intel's runtime, looked at since. Of their mappings half are kept as drawn, and of others those that the model took for the fastest when
they were drawn: enough of them are near the best."""
OTHER_FORMS = (
    *("turned_product", "gated_batch", "separable_conv", "tanh_gated"),
    *("biased_softmax", "moment_norm", "latent_decoding", "two_sided_matvec"),
)
"""Workloads J: the kinds of set I again in other forms, sizes drawn; judged once on Intel's runtime, looked at since. Their mappings are
chosen as set I's were."""
ANOTHER_PROCESSOR = (
    *("two_sums_product", "spectral_product", "strided_depthwise", "error_gated"),
    *("tempered_softmax", "gated_norm", "sloped_decoding", "batched_vecmat"),
)
"""Workloads K: these kinds once more, in forms that neither I nor J has, sizes drawn; judged once on both runtimes of one processor,
looked at since. Their mappings are chosen as set I's were."""
DRAWN_LAST = (
    *("crossed_product", "weighted_contraction", "inverted_conv", "relu_gated"),
    *("capped_softmax", "unit_norm", "scaled_decoding", "gated_matvec"),
)
"""Workloads L: these kinds in forms that none of I, J and K has, sizes drawn; judged once on both runtimes on the processor of set K,
looked at since. Their mappings are chosen as set I's were."""
DRAWN_AFTERWARDS = (
    *("turned_batch", "mttkrp_last", "gated_conv1d", "rowwise_gated"),
    *("sink_softmax", "instance_norm", "multi_query_decoding", "few_vectors"),
)
"""Workloads M: these kinds in forms that none of I to L has, sizes drawn; judged once on both runtimes on the processor of sets K and L,
looked at since. Their mappings are chosen as set I's were."""
DRAWN_IN_FORMS = (
    *("interleaved_product", "diagonal_product", "residual_conv", "biased_gated"),
    *("middle_softmax", "column_norm", "batched_decoding", "low_rank_matvec"),
)
"""Workloads N: these kinds in forms that none of I to M has, sizes drawn; judged once on both runtimes on the processor of sets K to M,
looked at since. Their mappings are chosen as set I's were."""
DRAWN_ONCE_MORE = (
    *("five_axes", "tensor_train", "channels_last_conv", "columnwise_gated"),
    *("spatial_softmax", "channel_norm", "turned_decoding", "middle_matvec"),
)
"""Workloads O: these kinds in forms that none of I to N has, sizes drawn; judged once on both runtimes on the processor of sets K to N,
looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT = (
    *("ladder_term", "gravity", "graph_layer", "beam_power"),
    *("cost_volume", "factor_machine", "stiffness", "mixture_scores"),
)
"""Workloads P: of kinds that are in none of the others, as chemistry, physics, graph nets, processing of signals, vision, recommendation,
finite elements and statistics have them, sizes drawn; judged once on both runtimes on the processor of sets K to O, looked at
since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_NEXT = (
    *("windowed_attention", "lattice_collision", "covariance_step", "basket_option"),
    *("joint_bilateral", "motif_scan", "mel_spectrum", "transport_step"),
)
"""Workloads Q: of kinds that are in none of the others, as language, fluids, estimation, finance, imaging, genomics, speech and transport
have them, sizes drawn; judged once on both runtimes on the processor of sets K to P, looked at since. Their mappings are chosen as set I's
were."""
DRAWN_BY_SUBJECT_LAST = (
    *("sphere_synthesis", "gram_schmidt", "transducer_joint", "flow_step"),
    *("ambiguity_map", "kinship", "gate_step", "topic_update"),
)
"""Workloads R: of kinds that are in none of the others, as climate, linear algebra, dictation, motion, radar, heredity, quantum circuits
and topics of texts have them, sizes drawn; judged once on both runtimes on the processor of sets K to Q, looked at since. Their mappings
are chosen as set I's were."""
DRAWN_BY_SUBJECT_SINCE = (
    *("state_step", "arm_inertia", "wave_step", "sky_image"),
    *("site_environment", "light_sum", "wavelet_level", "shared_information"),
)
"""Workloads S: of kinds that are in none of the others, as models of sequences, robotics, seismology, astronomy, many-body physics,
rendering, compression and registration of images have them, sizes drawn; judged once on both runtimes on the processor of sets K to R,
looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_THEN = (
    *("cauchy_likelihood", "coherence", "element_matrix", "reprojection"),
    *("sine_layer", "option_book", "electron_density", "flood_step"),
)
"""Workloads T: of kinds that are in none of the others, as robust statistics, the study of signals, assembly of finite elements, geometry
of several views, implicit nets, pricing, quantum chemistry and hydrology have them, sizes drawn; judged once on both runtimes on the
processor of sets K to S, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_RECENTLY = (
    *("bispectrum", "logistic_fit", "ray_hits", "quantised_layer"),
    *("strain_rate", "sinkhorn_step", "local_contrast", "prediction_residual"),
)
"""Workloads U: of kinds that are in none of the others, as higher spectra, regression, tracing of rays, arithmetic of few bits, turbulence,
transport of masses, local normalisation of images and prediction of signals have them, sizes drawn; judged once on both runtimes on the
processor of sets K to T, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_AT_LAST = (
    *("tree_likelihood", "late_interaction", "scattering_source", "tone_curve"),
    *("bellman_backup", "field_update", "matrix_profile", "particle_push"),
)
"""Workloads V: of kinds that are in none of the others, as phylogenetics, retrieval of texts, transport of radiation, photography, learning
by reward, electromagnetics, mining of series and plasmas have them, sizes drawn; judged once on both runtimes on the processor of sets K to
U, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_ZEN_5 = (
    *("power_flow", "triangle_update", "gauge_link", "phase_field"),
    *("diffusion_signal", "regret_matching", "shrinkage_step", "membrane_step"),
)
"""Workloads W: of kinds that are in none of the others, as power grids, folding of proteins, gauge fields on a lattice, separation of
phases, imaging of diffusion, games, recovery of sparse signals and nerve cells have them, sizes drawn; judged once on both runtimes on a
Zen 5, on which none of the rules since set K was made, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_ZEN_5_NEXT = (
    *("reaction_rates", "epidemic_step", "blend_skinning", "polyphase_bank"),
    *("fuzzy_means", "block_denoising", "median_filter", "contrastive_step"),
)
"""Workloads X: of kinds that are in none of the others, as combustion, spreading of diseases, animation of bodies, banks of filters, soft
clustering, removal of noise by blocks, order statistics of images and learning without labels have them, sizes drawn; judged once on both
runtimes on the processor of set W, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_ZEN_4_AGAIN = (
    *("structure_factors", "stress_return", "coupled_features", "choice_shares"),
    *("binary_patterns", "hologram_step", "lag_differences", "pair_loss"),
)
"""Workloads Y: of kinds that are in none of the others, as crystallography, plastic solids, geometric nets, market research, textures of
images, retrieval of phases, pitch of voices and learning to rank have them, sizes drawn; judged once on both runtimes on the Zen 4 of sets
K to V, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_ZEN_4_LAST = (
    *("semblance", "corner_strength", "symbol_distances", "hyperbolic_distances"),
    *("limited_flux", "gaussian_divergence", "tail_loss", "commutator_step"),
)
"""Workloads Z: of kinds that are in none of the others, as stacking of seismic traces, corners of images, detection of symbols by radio,
embeddings of trees, shocks in gases, variational inference, risks of portfolios and quantum dynamics have them, sizes drawn; judged once on
both runtimes on the Zen 4 of set Y, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_A_XEON = (
    *("risk_sets", "spline_layer", "echo_canceller", "oscillator_step"),
    *("emission_step", "community_distances", "modularity", "smoothed_density"),
)
"""Workloads AA: of kinds that are in none of the others, as analysis of survival, nets of splines, cancellation of echoes, coupled
oscillators, emission tomography, ecology, the study of networks and fluids of particles have them, sizes drawn; judged once on both
runtimes on an Intel Xeon, on which no rule since set C was made, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_ANOTHER_XEON = (
    *("item_information", "heat_conduction", "additive_tones", "maxout"),
    *("opinion_step", "electrode_currents", "pair_ratings", "spectral_colours"),
)
"""Workloads AB: of kinds that are in none of the others, as tests of abilities, conduction of heat, synthesis of sounds, nets of maxima,
spreading of opinions, electrochemistry, ratings of players and the science of colours have them, sizes drawn; judged once on PoCL on
another Xeon, on which the workloads that the model was developed on were looked at before, looked at since. Their mappings are chosen as
set I's were."""
DRAWN_BY_SUBJECT_ON_ZEN_4_SINCE = (
    *("variogram_sum", "muscle_torques", "dose_superposition", "parity_checks"),
    *("line_shapes", "rational_patch", "column_energy", "preconditioned_step"),
)
"""Workloads AC: of kinds that are in none of the others, as geostatistics, biomechanics, the study of drugs, decoding of parity checks,
spectroscopy, design of surfaces, meteorology and optimisation of second order have them, sizes drawn; judged once on both runtimes on the
Zen 4 of sets Y and Z, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_A_XEON_AGAIN = (
    *("distance_covariance", "capsule_routing", "symmetry_functions", "spin_glass"),
    *("riccati_step", "coil_encoding", "divisive_normalisation", "canopy_light"),
)
"""Workloads AD: of kinds that are in none of the others, as the study of dependence, nets of capsules, potentials between atoms, spin
glasses, control, magnetic resonance imaging, the science of vision and that of plants have them, sizes drawn; judged once on both runtimes
on the Xeon of set AA, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_ZEN_4_THEN = (
    *("attention_gradient", "fast_weights", "hidden_states", "molecule_scattering"),
    *("fock_matrix", "credit_losses", "back_projection", "orthogonal_step"),
)
"""Workloads AE: of kinds that are in none of the others, as training of attention, memories that nets write to, hidden states of sequences,
scattering by molecules, self-consistent fields, risks of loans, tomography and optimisers of matrices have them, sizes drawn; judged once
on both runtimes on a Zen 4 as that of set AC, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_A_ZEN_3 = (
    *("slot_attention", "magnet_step", "ice_flow", "trade_shares"),
    *("enzyme_rates", "hyper_layer", "policy_reserves", "mesh_volumes"),
)
"""Workloads AF: of kinds that are in none of the others, as nets of slots for objects, magnetism, glaciology, trade, metabolism, nets that
make other nets' weights, life insurance and meshes have them, sizes drawn; judged once on both runtimes on a Zen 3, a kind of
processor that no set was measured on before, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_ZEN_4_ONCE_MORE = (
    *("sparse_choices", "deblurred_image", "grain_stiffness", "soft_trees"),
    *("orbit_velocities", "ballot_strengths", "ocean_pressure", "radiance_rays"),
)
"""Workloads AG: of kinds that are in none of the others, as nets that choose sparsely, microscopy, grains of metals, nets of decision
trees, planets of other stars, voting, the study of oceans and fields of radiance have them, sizes drawn; judged once on both
runtimes on a Zen 4 as that of set AE, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_A_XEON_ONCE_MORE = (
    *("masked_retention", "transform_stage", "oriented_cells", "mapped_points"),
    *("operator_layer", "cloud_distances", "pair_energies", "word_scores"),
)
"""Workloads AH: of kinds that are in none of the others, as nets that forget, fast transforms, detection of people, maps made by
satellites, nets that learn operators, scanning of shapes, molecular dynamics in float64 and search for documents have them, sizes drawn;
judged once on both runtimes on the Xeon of sets AA and AD, looked at since. Their mappings are chosen as set I's were."""
DRAWN_BY_SUBJECT_ON_A_XEON_THEN = (
    *("differential_attention", "forecast_scores", "correlation_energy", "route_choice"),
    *("galaxy_shear", "room_echoes", "soil_moisture", "stream_mixing"),
)
"""Workloads AI: of kinds that are in none of the others, as nets that subtract one attention from another, the judgement of forecasts, the
theory of electrons that avoid one another, traffic, lensing by galaxies, the acoustics of rooms, water in soils and nets of several streams
have them, sizes drawn; judged once on both runtimes on the Xeon of sets AA, AD and AH, looked at since. Their mappings are chosen as set
I's were."""
NOT_LOOKED_AT: tuple[str, ...] = ()
"""Workloads AJ, which nobody has drawn yet: no interval is made of them, and the next set gets this name."""
SETS = {
    "workloads that the model was developed on": DEVELOPED,
    "workloads that were held out once": JUDGED,
    "workloads that were held out next": JUDGED_NEXT,
    "workloads that were held out last": JUDGED_LAST,
    "workloads that were held out on a third kind of processor": HELD_OUT,
    "workloads that were held out before these": DRAWN,
    "workloads that were held out right before these": LEFT_OUT,
    "workloads that were held out with a calibration of the same sitting": UNSEEN,
    "workloads of the kinds that are mostly asked for": ASKED_FOR,
    "workloads of these kinds in other forms": OTHER_FORMS,
    "workloads of these kinds on another processor": ANOTHER_PROCESSOR,
    "workloads of these kinds drawn once more": DRAWN_LAST,
    "workloads of these kinds drawn after those": DRAWN_AFTERWARDS,
    "workloads of these kinds in further forms": DRAWN_IN_FORMS,
    "workloads of these kinds in the last forms": DRAWN_ONCE_MORE,
    "workloads of eight subjects": DRAWN_BY_SUBJECT,
    "workloads of eight further subjects": DRAWN_BY_SUBJECT_NEXT,
    "workloads of eight subjects more": DRAWN_BY_SUBJECT_LAST,
    "workloads of eight subjects since": DRAWN_BY_SUBJECT_SINCE,
    "workloads of eight subjects then": DRAWN_BY_SUBJECT_THEN,
    "workloads of eight subjects recently": DRAWN_BY_SUBJECT_RECENTLY,
    "workloads of eight subjects at last": DRAWN_BY_SUBJECT_AT_LAST,
    "workloads of eight subjects on a Zen 5": DRAWN_BY_SUBJECT_ON_ZEN_5,
    "workloads of eight subjects more on a Zen 5": DRAWN_BY_SUBJECT_ON_ZEN_5_NEXT,
    "workloads of eight subjects on a Zen 4 again": DRAWN_BY_SUBJECT_ON_ZEN_4_AGAIN,
    "workloads of eight subjects on a Zen 4 at last": DRAWN_BY_SUBJECT_ON_ZEN_4_LAST,
    "workloads of eight subjects on a Xeon": DRAWN_BY_SUBJECT_ON_A_XEON,
    "workloads of eight subjects on another Xeon": DRAWN_BY_SUBJECT_ON_ANOTHER_XEON,
    "workloads of eight subjects on a Zen 4 since": DRAWN_BY_SUBJECT_ON_ZEN_4_SINCE,
    "workloads of eight subjects on a Xeon again": DRAWN_BY_SUBJECT_ON_A_XEON_AGAIN,
    "workloads of eight subjects on a Zen 4 then": DRAWN_BY_SUBJECT_ON_ZEN_4_THEN,
    "workloads of eight subjects on a Zen 3": DRAWN_BY_SUBJECT_ON_A_ZEN_3,
    "workloads of eight subjects on a Zen 4 once more": DRAWN_BY_SUBJECT_ON_ZEN_4_ONCE_MORE,
    "workloads of eight subjects on a Xeon once more": DRAWN_BY_SUBJECT_ON_A_XEON_ONCE_MORE,
    "workloads of eight subjects on a Xeon then": DRAWN_BY_SUBJECT_ON_A_XEON_THEN,
    "held-out workloads": NOT_LOOKED_AT,
}
LETTERS = (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "AA", "AB", "AC", "AD", "AE", "AF", "AG", "AH", "AI", "AJ")
"""What these sets are called."""
KNOWN = tuple(case for members in SETS.values() for case in members if members is not NOT_LOOKED_AT)
"""Workloads that intervals are made of."""
SEED = 16
MOST_TURNS = 20
COUNT = 30
"""Mappings of a workload that are drawn, those held out two thirds of it: half of them with the lanes of the calibration as the usual
width, half with half as many."""


TIMED_APART = frozenset(
    {
        *("epyc_zen4", "epyc_zen4.2", "epyc_zen4.3", "epyc_zen4_intel", "epyc_zen4_intel.2"),
        *("epyc_zen5", "epyc_zen5.2", "epyc_zen5.3", "epyc_zen5_intel", "epyc_zen5_intel.2", "xeon_avx512"),
    }
)
"""Folders whose kernels were written before code generation made loops one (27 November 2026)."""


@dataclass(frozen=True)
class Device:
    """A folder with what a calibration of a processor, or of another runtime on it, wrote, and what was measured there."""

    name: str

    @property
    def processor(self) -> str:
        """The processor, and the runtime if it is not PoCL: another sitting, with a calibration of its own, has a folder of that name with
        a number.
        """
        return self.name.partition(".")[0]

    @property
    def fused(self) -> bool:
        """Whether loops that hand on values were one in the kernels that were timed."""
        return self.name not in TIMED_APART

    @property
    def folder(self) -> Path:
        """Where its data lie."""
        return DATA / self.name

    @property
    def text(self) -> str:
        """The calibration."""
        return (self.folder / "device.yaml").read_text()

    @property
    def opencl_device(self) -> str:
        """What a calibration wrote in its first line that it ran on, as a device is asked for."""
        return f"platform:{self.text.partition(', driver ')[0].rpartition(' on ')[2]}"

    def spec(self, case: str) -> Spec:
        """A workload on this device, without a mapping."""
        return ff.loads((FOLDER / "workloads" / f"{case}.yaml").read_text() + self.text)

    def mapped(self, case: str) -> list[Spec]:
        """The mappings that were drawn, in their order; one workload for all of them."""
        base = self.spec(case)
        rows = self._drawn(case).read_text().splitlines()
        return [dataclasses.replace(base, mapping=ff.loads(json.loads(row)["mapping"]).mapping) for row in rows]

    def slots(self, case: str) -> dict[int, list[list[float]]]:
        """Number of a mapping -> seconds of its runs in each slot."""
        found: dict[int, list[list[float]]] = {}
        file = self.folder / f"{case}_seconds.jsonl"
        for line in file.read_text().splitlines() if file.exists() else ():
            row = json.loads(line)
            found.setdefault(row["mapping"], []).append([ns * 1e-9 for ns in row["samples_ns"]])
        return found

    def samples(self, case: str) -> dict[int, list[float]]:
        """Number of a mapping -> seconds of its runs."""
        return {number: [sample for slot in slots for sample in slot] for number, slots in self.slots(case).items()}

    def add_samples(self, case: str, mapping: int, samples_ns: list[float]) -> None:
        """Keep the runs of a mapping."""
        with (self.folder / f"{case}_seconds.jsonl").open("a") as out:
            out.write(json.dumps({"mapping": mapping, "samples_ns": [round(ns) for ns in samples_ns]}) + "\n")

    def draw(self, case: str, target: Target, count: int = 0) -> int:
        """Draw mappings of a workload until there are ``count`` (0: as many as the protocol has); those that are there stay, and further
        ones are of further seeds. How many there are."""
        file = self._drawn(case)
        rows = dict.fromkeys(json.loads(line)["mapping"] for line in file.read_text().splitlines()) if file.exists() else {}
        base = self.spec(case)
        usual = fitted(target, base)
        half = (COUNT if case in DEVELOPED else COUNT * 2 // 3) // 2
        for turn in range(MOST_TURNS if count else 1):
            if len(rows) >= count and rows:
                break
            if turn == 0 and rows:
                continue  # drawn before
            for part, wide in enumerate((usual, dataclasses.replace(usual, vector_bytes=usual.vector_bytes // 2))):
                narrowed = _with_lanes(base, wide.vector_bytes // 4)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    drawn = list(random_mappings(narrowed, half, SEED + 2 * turn + part, target=wide))
                rows |= dict.fromkeys(mapping_text(one.mapping) for one in drawn if one.mapping is not None)
        file.write_text("".join(json.dumps({"mapping": row}) + "\n" for row in rows))
        return len(rows)

    def keep(self, case: str, count: int) -> None:
        """Keep so many of the mappings that were drawn: the first of them, and as many of the others that are predicted to be fastest."""
        lines = self._drawn(case).read_text().splitlines()
        if len(lines) <= count:
            return
        specs, first = self.mapped(case), count // 2
        machine = Machine.of(specs[0])
        assert machine is not None
        predicted = {number: kernel_time(specs[number], machine).seconds for number in range(first, len(lines))}
        fastest = sorted(predicted, key=lambda number: predicted[number])[: count - first]
        self._drawn(case).write_text("".join(f"{lines[number]}\n" for number in (*range(first), *sorted(fastest))))

    def _drawn(self, case: str) -> Path:
        return self.folder / f"{case}_mappings.jsonl"


def _with_lanes(spec: Spec, lanes: int) -> Spec:
    """The Spec on an architecture whose lanes are fewer, for which the usual mappings are drawn."""
    assert spec.arch is not None and spec.opencl is not None
    kinds = spec.opencl.fanouts
    nodes = tuple(
        dataclasses.replace(leaf, spatial=tuple(dataclasses.replace(fanout, fanout=lanes) for fanout in leaf.spatial))
        if isinstance(leaf, Leaf) and kinds.get(leaf.name) == "vector"
        else leaf
        for leaf in spec.arch.nodes
    )
    return spec.replace(arch=dataclasses.replace(spec.arch, nodes=nodes))
