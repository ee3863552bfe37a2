//! The emulated HIP runtime as a shared library.
