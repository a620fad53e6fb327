//! The tests of warpsmith.
