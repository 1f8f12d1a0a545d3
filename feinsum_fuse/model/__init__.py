"""The analytic model: AccelForge's figures for a spec, on one mapping or on arrays of tile shapes, and the floor under them."""

from .evaluation import Predictions, predict, predict_many, predicted_seconds
from .floor import Bounds, bounds
from .hardware.placement import place_caches
from .prediction import Prediction

__all__ = ["Bounds", "Prediction", "Predictions", "bounds", "place_caches", "predict", "predict_many", "predicted_seconds"]
