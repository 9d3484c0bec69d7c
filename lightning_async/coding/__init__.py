"""Gradient codes, quantisers, bit allocation and decoders; numpy and torch only."""

from lightning_async.coding.allocation import AllocationMethod, allocate_bits
from lightning_async.coding.baselines import bgc, cyclic, erasure_head, fractional_repetition, sgc, uncoded
from lightning_async.coding.codes import Fill, GradientCode, code_from_effective, effective_code, optimal_code, osgc
from lightning_async.coding.comparison import RelativeErrors, compare_codes
from lightning_async.coding.correlation import CorrelationEstimator, CrestFactorAverage
from lightning_async.coding.decoders import (
    Decoder,
    FixedDecoder,
    GroupDecoder,
    LeastSquaresDecoder,
    SurvivorMean,
    combine,
    gram_of_messages,
)
from lightning_async.coding.error import code_error, correlated_gram, expected_error, sampled_error
from lightning_async.coding.fills import alias_fill, interval_fill, spread_fill
from lightning_async.coding.loads import loads, proportional_loads
from lightning_async.coding.message import Message, message_seed
from lightning_async.coding.packing import pack, packed_size, unpack
from lightning_async.coding.quantizers import NoQuantizer, Quantizer, StochasticRounding, SubtractiveDither
from lightning_async.coding.registry import (
    CODE_NAMES,
    DECODER_NAMES,
    QUANTIZERS,
    CodeName,
    DecoderName,
    make_code,
    make_decoder,
    make_quantizer,
)
from lightning_async.coding.set_aware import SetAwareDecoder
from lightning_async.coding.sign_magnitude import QSGD, NormScaled
from lightning_async.coding.variance import QuantizerName, relative_variance, utility

__all__ = [
    "CODE_NAMES",
    "DECODER_NAMES",
    "QSGD",
    "QUANTIZERS",
    "AllocationMethod",
    "CodeName",
    "CorrelationEstimator",
    "CrestFactorAverage",
    "Decoder",
    "DecoderName",
    "Fill",
    "FixedDecoder",
    "GradientCode",
    "GroupDecoder",
    "LeastSquaresDecoder",
    "Message",
    "NoQuantizer",
    "NormScaled",
    "Quantizer",
    "QuantizerName",
    "RelativeErrors",
    "SetAwareDecoder",
    "StochasticRounding",
    "SubtractiveDither",
    "SurvivorMean",
    "alias_fill",
    "allocate_bits",
    "bgc",
    "code_error",
    "code_from_effective",
    "combine",
    "compare_codes",
    "correlated_gram",
    "cyclic",
    "effective_code",
    "erasure_head",
    "expected_error",
    "fractional_repetition",
    "gram_of_messages",
    "interval_fill",
    "loads",
    "make_code",
    "make_decoder",
    "make_quantizer",
    "message_seed",
    "optimal_code",
    "osgc",
    "pack",
    "packed_size",
    "proportional_loads",
    "relative_variance",
    "sampled_error",
    "sgc",
    "spread_fill",
    "uncoded",
    "unpack",
    "utility",
]
