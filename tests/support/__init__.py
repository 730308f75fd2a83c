"""What tests share: servers on loopback, made-up data, and waiting without a fixed time."""
