"""From a scheduled kernel back to the cascade and the LoopTree that it is."""
