//! Tests of the vector ALU.
