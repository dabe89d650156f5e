"""Libraries that run recorded programs in place of native code, each in a room of its own."""
