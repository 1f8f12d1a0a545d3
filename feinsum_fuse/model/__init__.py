"""The analytic model: AccelForge's figures for a spec, on one mapping or on arrays of tile shapes."""

from .predict import Predictions, predict, predict_many
from .prediction import Prediction

__all__ = ["Prediction", "Predictions", "predict", "predict_many"]
