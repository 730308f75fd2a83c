"""Floor 7: data sets, metrics, replay, fitting."""
