"""The analytic model: AccelForge's figures for a spec, on one mapping or on arrays of tile shapes, and the floor under them."""

from .bounds import Bounds, bounds
from .predict import Predictions, predict, predict_many
from .prediction import Prediction

__all__ = ["Bounds", "Prediction", "Predictions", "bounds", "predict", "predict_many"]
