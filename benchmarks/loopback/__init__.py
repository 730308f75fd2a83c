"""An upstream, a load and a stopwatch, all on loopback, as cheap as they can be made."""
