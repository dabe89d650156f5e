"""Libraries that run recorded programs in place of native code, one subpackage each."""
