"""What a search learns from its measurements: a correction of the model's predictions."""
