//! What this machine says about its GPUs without a driver call.
