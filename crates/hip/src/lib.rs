//! HIP and hiprtc, loaded at run time.
